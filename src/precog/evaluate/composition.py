"""What rules of composition are worth: nearness to reading the same chunks, answers, time and bytes, in one table.

Every question comes with n paragraphs of its article: its own, and the others that retrieval ranks best. The judge
reads them in one pass, the best last; every rule starts from their stored states. Nearness to the judge is not answer
quality, because what reads several chunks forgets the early ones: both are reported.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict

import numpy as np

from precog.backbones.protocol import Backbone
from precog.encoders import load_encoder
from precog.engine import question_segment
from precog.errors import InputError
from precog.evaluate.composer import BEST, Asked, Composer, CompositionSettings, Outcome
from precog.evaluate.metrics import Interval, bootstrap, exact_match, f1, paired_bootstrap
from precog.evaluate.paragraphs import Paragraphs
from precog.evaluate.squad_data import Question, ids_sha256, sample_questions


def evaluate_composition(
    everything: Sequence[Question],
    limit: int | None,
    seed: int,
    backbone: Backbone,
    settings: CompositionSettings,
    encoder_spec: str | None = None,
    on_question: Callable[[int, int], None] = lambda done, total: None,
) -> dict[str, object]:
    """Measure every way on the same questions.

    Args:
        everything: the whole file: an article's paragraphs are the small corpus of its questions.
        limit: questions; all when None.
        seed: of their choice.
        backbone: the model.
        settings: what is measured.
        encoder_spec: sentence encoder; the default one when None.
        on_question: called with the number of questions done, and of all.

    Returns:
        The JSON object of ``precog eval composition``.

    Raises:
        InputError: no article has enough paragraphs.
    """
    articles: dict[str, list[Question]] = {}
    for question in everything:
        articles.setdefault(question.title, []).append(question)
    enough = {
        title: own
        for title, own in articles.items()
        if len({question.context for question in own}) >= settings.num_chunks
    }
    if not enough:
        expected = f"an article with {settings.num_chunks} paragraphs"
        raise InputError(
            "no article of this file has enough paragraphs", given=f"{len(articles)} articles", expected=expected
        )
    questions = sample_questions([question for own in enough.values() for question in own], limit, seed)
    encoder = load_encoder(encoder_spec)
    composer = Composer(backbone, settings)
    searched: dict[str, Paragraphs] = {}
    outcomes: list[dict[str, Outcome]] = []
    ranks: list[int] = []
    for done, question in enumerate(questions, 1):
        if question.title not in searched:
            searched[question.title] = Paragraphs(enough[question.title], encoder=encoder)
        paragraphs = searched[question.title]
        found, scores = paragraphs.search(question.question, len(paragraphs.texts))
        ranks.append(found.index(question.context))
        chosen = found[: settings.num_chunks]
        if question.context not in chosen:
            chosen = [*chosen[:-1], question.context]
        asked = Asked(
            question_segment(backbone, question.question),
            [composer.member(text) for text in chosen],
            [scores[found.index(text)] for text in chosen],
        )
        outcomes.append(composer.outcomes(asked))
        on_question(done, len(questions))
    return {
        "rules": _table(questions, outcomes, [rank > 0 for rank in ranks], settings),
        "n": len(questions),
        "chunks": settings.num_chunks,
        "num_gold_not_best": sum(rank > 0 for rank in ranks),
        "gold_is_best": float(np.mean([rank == 0 for rank in ranks])),
        "ids_sha256": ids_sha256(questions),
        "decoding": asdict(settings.grounded),
        "model": backbone.card.name,
        "fingerprint": backbone.fingerprint,
        "encoding": {"mode": backbone.encode_mode, "codec": settings.codec, "dtype": backbone.encoding_dtype},
        "device": str(backbone.device),
        "seed": seed,
    }


def _table(
    questions: Sequence[Question],
    outcomes: Sequence[dict[str, Outcome]],
    misranked: Sequence[bool],
    settings: CompositionSettings,
) -> dict[str, object]:
    scored = {
        way.name: {
            kind: (
                [exact_match(text(o[way.name]), q.answers) for o, q in zip(outcomes, questions, strict=True)],
                [f1(text(o[way.name]), q.answers) for o, q in zip(outcomes, questions, strict=True)],
            )
            for kind, text in _KINDS.items()
        }
        for way in settings.ways
    }
    table: dict[str, object] = {}
    for way in settings.ways:
        mine = [outcome[way.name] for outcome in outcomes]
        row: dict[str, object] = {"exact": way.how is None or way.how.rule in ("mix", "replay")}
        for kind, (em, f1_) in scored[way.name].items():
            whole = bootstrap(f1_)
            missed = [score for score, wrong in zip(f1_, misranked, strict=True) if wrong]
            row[kind] = {
                "em": bootstrap(em).mean,
                "f1": whole.mean,
                "f1_interval": _ends(whole),
                "f1_where_gold_is_not_best": float(np.mean(missed)) if missed else None,
            }
            if BEST in scored and way.name != BEST:
                gain = paired_bootstrap(f1_, scored[BEST][kind][1])
                row[f"{kind}_f1_gain_over_best"] = {"value": gain.mean, "interval": _ends(gain)}
        states = [outcome.state_error for outcome in mine if outcome.state_error is not None]
        logits = [outcome.logit_error for outcome in mine if outcome.logit_error is not None]
        row |= {
            "state_error": np.mean(states, axis=0).tolist() if states else None,
            "mean_state_error": float(np.mean(states)) if states else None,
            "mean_max_logit_error": float(np.mean(logits)) if logits else None,
            "max_logit_error": float(np.max(logits)) if logits else None,
            "median_latency_sec": float(np.median([outcome.latency_sec for outcome in mine])),
            "median_first_token_sec": float(np.median([outcome.first_token_sec for outcome in mine])),
            "mean_tokens_read": float(np.mean([outcome.tokens_read for outcome in mine])),
            "mean_bytes_loaded": float(np.mean([outcome.bytes_loaded for outcome in mine])),
        }
        table[way.name] = row
    return table


_KINDS: dict[str, Callable[[Outcome], str]] = {"grounded": lambda o: o.grounded, "free": lambda o: o.free}


def _ends(interval: Interval) -> list[float]:
    return [interval.low, interval.high]
