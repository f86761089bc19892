"""``precog eval abstain``: whether confidence tells when to say nothing; and fitting it to one's own questions."""

import json
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Table

from precog.backbones.protocol import Backbone
from precog.backbones.registry import find_model, load_backbone
from precog.backbones.tenns.kept import card_to_keep_on, keep_confidence
from precog.cli import options
from precog.cli.output import counted, out, print_json, shown
from precog.cli.progress import Counting
from precog.cli.quality import Quality, print_tally
from precog.config import expanded, resolve
from precog.encoders import Encoder
from precog.engine.confidence import Calibration
from precog.engine.grounded import GroundedSettings
from precog.errors import InputError, UsageError
from precog.evaluate.abstention import Abstention, AbstentionSettings, fitted_to
from precog.evaluate.experiment import measured
from precog.evaluate.parts import parts_for
from precog.evaluate.reader import ParagraphReader
from precog.evaluate.retrieving import encoder_of
from precog.evaluate.squad_data import Question, read_questions, sample_questions
from precog.refine.choice import STUDY, TWICE
from precog.refine.tally import StudyTally
from precog.state import codec_named
from precog.train.data.squad import held_out_titles
from precog.writing import output_file, output_target

SquadFiles = "SQuAD v1.1 JSON, or JSON lines (.gz allowed)"


def abstain(
    data: Annotated[
        Path | None, typer.Option("--data", metavar="FILE", help=f"Measured on: {SquadFiles}.", show_default=False)
    ] = None,
    fit: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"Fit coefficients to this first: {SquadFiles}.", show_default=False),
    ] = None,
    fit_limit: Annotated[int, typer.Option(metavar="N", help="Questions that are fitted to.", min=1)] = 600,
    held_out: Annotated[
        bool, typer.Option("--held-out", help="Fit to those titles alone that training holds out of SQuAD.")
    ] = False,
    coefficients: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Coefficients, as --out writes them; with --quality study those of focused answers.  "
            "\\[default: the model's]",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the fitted coefficients there.", show_default=False),
    ] = None,
    keep: Annotated[
        bool,
        typer.Option(
            "--keep",
            help="Write the fitted coefficients into the model's precog.json; with --quality study beside those of "
            "other answers.",
        ),
    ] = False,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    codec: options.Codec = "fp16",
    quality: options.Quality = None,
    study_steps: options.StudySteps = None,
    study_seconds: options.StudySeconds = None,
    model: options.Model = None,
    device: options.Device = None,
    threads: options.Threads = None,
    encoder: options.Encoder = None,
    as_json: options.Json = False,
) -> int:
    """When to say nothing: confidence over questions with their own paragraph and with wrong ones of the article.

    With --fit, coefficients of the model are fitted to questions of yours: logistic regression, right paragraphs and
    the best wrong ones mixed; with --quality study to answers from states that are focused on one sentence.
    """
    how = Quality.of(quality, None, study_steps, study_seconds)
    if data is None and fit is None:
        raise UsageError("nothing to do", expected="--data FILE to measure on, --fit FILE to fit to, or both")
    if fit is None and (held_out or target is not None or keep):
        raise UsageError("--held-out, --out and --keep need something fitted", expected="--fit FILE")
    if fit is not None and coefficients is not None:
        raise UsageError("coefficients are fitted or given", given="--fit and --coefficients", expected="one of them")
    if keep and how.name == TWICE:
        expected = "--quality fast or study"
        raise UsageError("no card keeps coefficients for states that are read twice", given="--keep", expected=expected)
    chosen = AbstentionSettings(codec=codec, seed=seed)
    if target is not None:
        target = output_target(expanded(target), "file of coefficients")
    settings = resolve({"model": model, "device": device, "threads": threads, "encoder": encoder})
    calibration = None if coefficients is None else _read(coefficients)
    asked = None if data is None else read_questions(data)
    fitted_on = None if fit is None else _fitted_on(fit, held_out)
    if keep:
        card_to_keep_on(find_model(settings.model), focused=how.name == STUDY)  # refused before anything is asked
    backbone = load_backbone(
        settings.model, encode_mode=how.encode_mode, device=settings.device, threads=settings.threads
    )
    found_by = encoder_of(settings.encoder)
    tally = StudyTally()
    if fitted_on is not None:
        reader = _reader(backbone, codec, how, found_by)
        calibration, tally = _fitted(fitted_on, fit_limit, reader, chosen, found_by), reader.states.tally
        if target is not None:
            with output_file(target, "file of coefficients", mode=0o644) as file:
                file.write((json.dumps(calibration.to_json(), indent=1) + "\n").encode())
        if keep:
            focused, folder = how.name == STUDY, find_model(settings.model)
            keep_confidence(folder, calibration.to_json(), focused=focused, measured=backbone.card)
    report: dict[str, object] = {}
    if asked is not None:
        questions = sample_questions(asked, limit, seed)
        reader = _reader(backbone, codec, how, found_by)
        with Counting("questions") as bar:
            experiment = Abstention(questions, asked, reader, chosen, calibration, found_by)
            report, tally = experiment.report(measured(experiment, bar.show)), reader.states.tally
    if fitted_on is not None and calibration is not None:
        report["coefficients"] = calibration.to_json()
    report = how.told(report, tally)
    if as_json:
        print_json(report)
    else:
        _print(report)
        print_tally(tally)
    return 0


def _reader(backbone: Backbone, codec: str, how: Quality, encoder: Encoder) -> ParagraphReader:
    parts = parts_for(how.name, backbone, encoder, codec_named(codec))
    grounded = GroundedSettings.from_card(backbone.card.decoding)
    return ParagraphReader(backbone, codec, grounded, how.study(backbone), parts=parts)


def _fitted_on(path: Path, held_out: bool) -> list[Question]:
    questions = read_questions(path)
    if held_out:
        titles = held_out_titles(question.title for question in questions)
        questions = [question for question in questions if question.title in titles]
        if not questions:
            raise InputError("nothing is held out of so few titles", given=path, expected="at least 10 titles")
    return questions


def _fitted(
    everything: list[Question], limit: int, reader: ParagraphReader, chosen: AbstentionSettings, encoder: Encoder
) -> Calibration:
    """Fitted to right paragraphs and the best wrong ones."""
    questions = sample_questions(everything, limit, chosen.seed)
    mixed = AbstentionSettings(("best",), chosen.codec, chosen.seed)
    with Counting("questions fitted to") as bar:
        experiment = Abstention(questions, everything, reader, mixed, None, encoder)
        return fitted_to(measured(experiment, bar.show), experiment.settings)


def _read(path: Path) -> Calibration:
    try:
        values = json.loads(expanded(path).read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise InputError("this file of coefficients cannot be read", given=f"{path}: {error}") from error
    if not isinstance(values, dict):
        raise InputError("this file holds no coefficients", given=path, expected="what --out wrote")
    return Calibration.from_json(values, str(path))


def _print(report: dict[str, object]) -> None:
    if "passage" in report:
        n = cast(dict[str, Any], report["settings"])["n"]
        table = Table(
            "what", "AUROC", "95 %", "before", "90 % right", "error", title=f"Confidence, {counted(n, 'question')}"
        )
        for what in ("passage", "answer", "exact"):
            for name, row in cast(dict[str, dict[str, Any]], report[what]).items():
                low, high = row["auroc_interval"] or (None, None)
                table.add_row(
                    f"{what}, {name.replace('_', ' ')}",
                    _number(row["auroc"]),
                    "–" if low is None else f"{low:.2f} – {high:.2f}",
                    _number(row["raw_auroc"]),
                    f"{100 * row['coverage_at_precision']['coverage']:.0f} %",
                    f"{row['calibration_error']:.2f}",
                )
        out.print(table)
        out.print(
            "[dim]AUROC, before: P(answer) / (P(answer) + P(no answer)); 90 % right: the share of answers, the surest "
            "first, of which so many are; error: of calibration[/]"
        )
        withheld = ", ".join(
            f"{kind} {100 * share:.0f} %" for kind, share in cast(dict[str, float], report["withheld"]).items()
        )
        out.print(f"below the threshold of {report['threshold']:.3f}: {withheld}")
    if report["coefficients"] is not None:
        out.print(shown(f"coefficients {json.dumps(report['coefficients'])}"))


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
