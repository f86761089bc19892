"""``precog eval locomo``: evidence found in long conversations, and answers from the state of what was found.

With ``--json``, one object: ``n`` questions with evidence, ``questions`` in all, ``without_evidence``,
``lost_evidence`` (evidence turns that the file does not have), ``conversations``, ``turns``, ``chunks``; ``rows``, one
per way of searching, with ``name``, ``prototypes``, ``probe_by``, ``probes``, ``search``, ``recall``, ``any`` and
``all`` (each ``{"1", "5", "10"}`` in percent), ``fraction_searched``, ``median_search_sec``, ``by_category``;
``verdict`` (``flat``, ``margin``, ``most_searched``, ``by_search``); ``keys``, flat recall by what turns are searched
by; ``median_encode_sec``; ``storage`` (``bytes`` by K, ``state_bytes``, ``num_texts``, ``mean_conversation_tokens``)
and ``answers`` (``n``, ``evidence_is_first``, ``modes``, ``stemmer``; by mode ``f1``, ``abstained``, the share of
answers that a chat would withhold, ``f1_abstentions_counted`` and more), both null without ``--answers``; ``encoder``,
``model``, ``codec`` and ``seed``.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Table

from precog.backbones.protocol import Backbone
from precog.backbones.registry import load_backbone
from precog.cli import options
from precog.cli.output import human_seconds, out, print_json, shown
from precog.cli.progress import Counting
from precog.config import expanded, resolve
from precog.encoders import Encoder, load_encoder
from precog.errors import UsageError
from precog.evaluate.locomo import PROBES, PROTOTYPES, Locomo, LocomoSettings, read_locomo, recall_of
from precog.evaluate.locomo_answers import Asked, answers_of, sample_answered, storage_of
from precog.memory.keyed import sklearn_part
from precog.memory.transcript import LocomoQuestion
from precog.state.codec import codec_named
from precog.writing import output_file, output_target


def locomo(
    data: Annotated[Path, typer.Option(metavar="FILE", help="LoCoMo JSON with questions (.gz allowed).")],
    probes: Annotated[str, typer.Option(metavar="N,N,…", help="Numbers of sub-clusters searched.")] = ",".join(
        map(str, PROBES)
    ),
    prototypes: Annotated[
        str, typer.Option(metavar="P,P", help="Sub-clusters of seeds, or fitted to each conversation.")
    ] = ",".join(PROTOTYPES),
    keys: Annotated[
        str, typer.Option(metavar="T,T,…", help="What turns are searched by; routing is measured with the first.")
    ] = "memory",
    answers: Annotated[
        int, typer.Option(metavar="N", help="Questions answered by the model; 0 to measure retrieval only.", min=0)
    ] = 0,
    samples: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write every answer, as JSON lines.")
    ] = None,
    codec: options.Codec = "fp16",
    seed: options.Seed = 0,
    model: options.Model = None,
    device: options.Device = None,
    threads: options.Threads = None,
    encoder: options.Encoder = None,
    as_json: options.Json = False,
) -> int:
    """Evidence recall in long conversations: routing to sub-clusters against searching everything."""
    chosen = resolve({"model": model, "device": device, "threads": threads, "encoder": encoder})
    settings = LocomoSettings(_numbers(probes), _names(keys), _names(prototypes), seed)
    codec_named(codec)
    if samples is not None:
        if not answers:
            raise UsageError("--samples writes answers, and none are asked", given=str(samples), expected="--answers N")
        samples = expanded(samples)
        output_target(samples, "file of samples")
    if "fitted" in settings.prototypes:
        sklearn_part("cluster")
    read = read_locomo(data, settings.zone)
    loaded = load_encoder(chosen.encoder)
    questions = sample_answered(read.questions, answers, seed) if answers else []
    backbone = (
        load_backbone(chosen.model, encode_mode="once", device=chosen.device, threads=chosen.threads)
        if questions
        else None
    )
    with Counting("reading") as bar:
        report = {
            **_counts(read),
            **recall_of(read, loaded, settings, lambda what, done, total: bar.show(done, total, what)),
        }
        answered = {} if backbone is None else _answers(read, questions, backbone, loaded, codec, samples, bar)
    nothing = {"storage": None, "answers": None, "model": None}
    report |= {**nothing, **answered, "encoder": loaded.name, "codec": codec, "seed": seed}
    if as_json:
        print_json(report)
    else:
        _print(report)
    return 0


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _numbers(text: str) -> tuple[int, ...]:
    names = _names(text)
    if not all(name.isascii() and name.isdecimal() and len(name) < 10 for name in names):
        raise UsageError("--probes are numbers of sub-clusters", given=text, expected="such as 1,2,4,8")
    return tuple(map(int, names))


def _counts(data: Locomo) -> dict[str, object]:
    lost = 0
    references = {name: {chunk.utterance.reference for chunk in own} for name, own in data.chunks.items()}
    for question in data.questions:
        lost += sum(reference not in references[question.conversation] for reference in question.evidence)
    return {
        "n": len(data.with_evidence),
        "questions": len(data.questions),
        "without_evidence": len(data.questions) - len(data.with_evidence),
        "lost_evidence": lost,
        "conversations": len(data.chunks),
        "turns": sum(chunk.part == 0 for own in data.chunks.values() for chunk in own),
        "chunks": sum(map(len, data.chunks.values())),
    }


def _answers(
    data: Locomo,
    questions: Sequence[LocomoQuestion],
    backbone: Backbone,
    encoder: Encoder,
    codec: str,
    samples: Path | None,
    bar: Counting,
) -> dict[str, object]:
    report, asked = answers_of(
        data, questions, backbone, encoder, codec, lambda done: bar.show(done, len(questions), "answers")
    )
    if samples is not None:
        with output_file(samples, "file of samples", mode=0o644) as file:
            file.write("".join(map(_line, asked)).encode())
    return {"storage": storage_of(data, backbone, codec), "answers": report, "model": backbone.card.name}


def _line(asked: Asked) -> str:
    said = {mode: answer.text for mode, answer in asked.said.items()}
    question = asked.question
    line = {"id": question.id, "question": question.question, "answer": question.answer, "turn": asked.turn}
    return json.dumps({**line, "is_evidence": asked.is_evidence, "said": said}, ensure_ascii=False) + "\n"


def _print(report: dict[str, Any]) -> None:
    title = f"LoCoMo, {report['n']:,} questions with evidence, {report['turns']:,} turns"
    table = Table("search", "recall @1", "@5", "@10", "any @5", "all @5", "searched", "time", title=title)
    for row in report["rows"]:
        recalls = [row["recall"][k] for k in ("1", "5", "10")] + [row["any"]["5"], row["all"]["5"]]
        searched = f"{100 * row['fraction_searched']:.0f} %"
        table.add_row(
            row["name"], *(f"{value:.1f}" for value in recalls), searched, human_seconds(row["median_search_sec"])
        )
    out.print(table)
    if len(report["keys"]) > 1:
        table = Table("turns searched by", "hybrid @5", "dense @5", "bm25 @5", title="Flat search")
        for name, own in report["keys"].items():
            table.add_row(name, *(f"{own[how]['recall']['5']:.1f}" for how in ("hybrid", "dense", "bm25")))
        out.print(table)
    _print_verdict(report["verdict"])
    if report["answers"] is not None:
        _print_answers(report)


def _print_verdict(found: dict[str, Any]) -> None:
    half = f"{100 * found['most_searched']:.0f} %"
    for how, best in cast(dict[str, dict[str, Any] | None], found["by_search"]).items():
        if best is None:
            out.print(f"{how}: no way of routing searches at most {half}")
            continue
        held = "is within" if best["holds"] else "is not within"
        out.print(
            f"{how}: with at most {half} searched, recall@5 {best['recall_at_5']:.1f} ({shown(best['name'])}, "
            f"{100 * best['fraction_searched']:.0f} %) {held} {found['margin']:g} points of flat search's "
            f"{found['flat']:.1f}"
        )
        if best["unrouted"] is not None:
            out.print(f"{how}, without any sub-cluster: {best['unrouted']:.1f}")
        if best["same_flat"] != found["flat"]:
            held = "is within" if best["holds_against_same"] else "is not within"
            out.print(f"{how}: it {held} {found['margin']:g} points of flat {how} search's {best['same_flat']:.1f}")


def _print_answers(report: dict[str, Any]) -> None:
    answers, storage = report["answers"], report["storage"]
    table = Table("mode", "F1", "95 %", "F1 | evidence", "abstained", "tokens read", "of context", "time")
    table.title = f"Answers to {answers['n']} questions from the turn found first"
    for mode, row in answers["modes"].items():
        low, high = row["f1_interval"]
        given = row["f1_where_evidence_is_first"]
        table.add_row(
            mode,
            f"{row['f1']:.1f}",
            f"{low:.1f} – {high:.1f}",
            "–" if given is None else f"{given:.1f}",
            f"{100 * row['abstained']:.0f} %",
            f"{row['mean_tokens_read']:.1f}",
            f"{row['mean_context_tokens_read']:.1f}",
            human_seconds(row["median_latency_sec"]),
        )
    out.print(table)
    taken = ", ".join(f"K = {dial} {value / 1e6:,.0f} MB" for dial, value in storage["bytes"].items())
    out.print(f"states of all {storage['num_texts']:,} texts: {taken}")
    out.print(f"reading a whole conversation instead: {storage['mean_conversation_tokens']:,.0f} tokens")
