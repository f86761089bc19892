"""The records of all items, summed up: for each part its figures, its bounds, and what they mean."""

from collections.abc import Mapping, Sequence
from typing import Any, cast

from precog.engine.conformance import CONTINUATION_BOUND, FP32_BOUND
from precog.evaluate.experiment import Record
from precog.evaluate.theorem.bound import FP64_BOUND, FP64_EXPECTED, Bound, part
from precog.evaluate.theorem.growth import continuation, curves, growth, largest, smallest
from precog.evaluate.theorem.rollout import STORAGES

Records = Sequence[Mapping[str, Any]]
MODELS = ("given", "diagonal")
MOST_DIFFERING = 0.01


def summed_up(records: Sequence[Record], settings: Mapping[str, object]) -> dict[str, object]:
    """The report.

    Args:
        records: of all items.
        settings: of the experiment.

    Returns:
        ``holds``: whether every part does; ``parts``: by name ``holds``, ``meaning``, ``bounds`` and the figures;
        ``curves``: errors of states by question token, for a picture, see `curves`; and the settings.
    """
    of: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        of.setdefault(cast(str, record["part"]), []).append(record)
    parts = {
        "exactness": _exactness(of["exactness"]),
        "sufficiency": _sufficiency(of["sufficiency"]),
        "convolution": _convolution(of["convolution"]),
        "positions": _positions(of["rotary"], of["placeless"]),
        "averages": _averages(of.get("averages", [])),
    }
    return {
        "experiment": "theorem",
        "holds": all(found["holds"] for found in parts.values()),
        "parts": parts,
        "curves": curves(of["exactness"]),
        **settings,
    }


def _exactness(records: Records) -> dict[str, object]:
    rows: dict[str, dict[str, object]] = {}
    bounds: list[Bound] = []
    for model in MODELS:
        own = [record for record in records if record["model"] == model]
        rows[model] = {}
        for storage in STORAGES:
            found = [record["stored"][storage] for record in own if storage in record["stored"]]
            if not found:
                continue
            logits = largest(row["max_abs_logit_error"] for row in found)
            element = largest(row["element_error"] for row in found)
            positions = sum(row["positions"] for row in found)
            agreeing = sum(row["agreeing"] for row in found)
            differing = (positions - agreeing) / positions
            tokens, after = continuation(own, storage)
            rows[model][storage] = {
                "max_abs_logit_error": logits,
                "argmax_agreement": agreeing / positions,
                "positions": positions,
                "element_error": element,
                "continuation": {"tokens": tokens, "inf_norm": after},
                "growth": growth(own, storage),
            }
            if storage in ("fp64", "fp32"):
                limit = FP64_BOUND if storage == "fp64" else FP32_BOUND
                bounds.append(Bound(f"{storage}: max |Δlogit|", model, logits, limit))
            if storage == "fp64":
                name = "fp64: max |Δlogit|, by FP32's bound and the ratio of their roundings"
                bounds.append(Bound(name, model, logits, FP64_EXPECTED, judged=False))
            if storage != "fp64":
                bounds.append(Bound(f"{storage}: |ĥ − h| at the boundary, in units of its bound", model, element, 1.0))
            if storage in ("bf16", "fp16"):
                name = f"{storage}: share of tokens after which another one is most probable"
                bounds.append(Bound(name, model, differing, MOST_DIFFERING, judged=False))
            if storage == "fp16":
                bounds += _rounding(model, own, tokens, after)
    meaning = (
        "S(h₀, c ⊕ q) and S(S(h₀, c), q) are the same but for the order in which sums are rounded; what a state of "
        "fewer bits costs is its rounding at the boundary, and growth says what becomes of that while the question is "
        "read: below 1 it fades, as everything fades that was read before"
    )
    return part(meaning, bounds, rows=rows)


def _rounding(model: str, records: Records, tokens: int, after: float) -> list[Bound]:
    """What was expected of an FP16 state: ours, and the paper's floating-point note as it can be read."""
    marks = [
        (mark, max(row["inf_norm"][i]), max(row["two_norm"][i]))
        for record in records
        for row in [record["stored"]["fp16"]]
        for i, mark in enumerate(record["marks"])
    ]
    readings = {
        "paper, appendix A: ‖Δh‖∞ ≤ 2^-10 ‖h‖∞ of every layer at every mark": largest(error for _, error, _ in marks),
        "paper, appendix A: the same in the 2-norm": largest(error for _, _, error in marks),
        "paper, appendix A: accumulated, ‖Δh‖∞ ≤ |q| · 2^-10 ‖h‖∞": largest(error / mark for mark, error, _ in marks),
    }
    ours = {f"fp16: ‖Δh‖∞ / ‖h‖∞ of every layer after {tokens} tokens": after}
    return [Bound(name, model, value, CONTINUATION_BOUND, judged=False) for name, value in {**ours, **readings}.items()]


def _sufficiency(records: Records) -> dict[str, object]:
    bounds: list[Bound] = []
    for record in records:
        model, moved = record["model"], record["interpolation"]["max_abs_logit_error"]
        bounds += [
            Bound("all layers transplanted: max |Δlogit|", model, record["transplant"][-1], 0.0),
            Bound("any layer left: least max |Δlogit|", model, smallest(record["transplant"][:-1]), 0.0, most=False),
            Bound("read from bytes elsewhere: max |Δlogit|", model, record["elsewhere"]["max_abs_logit_error"], 0.0),
        ]
        if moved:
            name = "a state moved by 2^-20 of the way: max |Δlogit| over that of the whole way"
            bounds.append(Bound(name, model, moved[-1] / moved[0] if moved[0] else float("inf"), 2.0**-16))
    meaning = (
        "nothing but the state carries the context: another context's state becomes this one's only with the last "
        "layer exchanged, its bytes are enough in another process, and what the model says moves with the state"
    )
    return part(meaning, bounds, models={record["model"]: _without(record) for record in records})


def _convolution(records: Records) -> dict[str, object]:
    bounds: list[Bound] = []
    for record in records:
        model, kept, segment = record["model"], record["carried"]["kept"], record["segment"]
        reach = record["taps"] - 1
        bounds += [
            Bound("carried, with the tail: max |Δlogit|", model, largest(kept[str(reach)]), FP32_BOUND),
            Bound("segment, at the boundary, no tail: max |Δlogit|", model, largest(segment["boundary"]), FP32_BOUND),
        ]
        if not reach:  # one tap sees its own token only: there is no tail to lose
            continue
        first = smallest(kept[str(count)][0] for count in range(reach))
        lengths = smallest(cut["error"] for cut in record["carried"]["cuts"])
        cuts = smallest(cut["error"] for cut in segment["cuts"] if cut["tokens"])
        bounds += [
            Bound("carried, any input of the tail lost: first |Δlogit|", model, first, FP32_BOUND, most=False),
            Bound("carried, no tail, any length: least max |Δlogit|", model, lengths, FP32_BOUND, most=False),
            Bound("segment, cut inside, no tail: least max |Δlogit|", model, cuts, FP32_BOUND, most=False),
            Bound(
                "segment, cut anywhere, with the tail: max |Δlogit|",
                model,
                largest(cut["error"] for cut in segment["cuts_with_tail"]),
                FP32_BOUND,
            ),
            Bound("going on inside a segment without the tail: refused", model, float(segment["refused"]), 0.5, False),
        ]
    meaning = (
        "where the convolution crosses the boundary, the recurrent state is not all that is remembered: without the "
        "window's last inputs the identity fails from the first question token on, after a context of any length; "
        "where it stops at the boundary, the state is complete there, and inside a segment it is not"
    )
    return part(meaning, bounds, models={record["model"]: _without(record) for record in records})


def _positions(rotary: Records, placeless: Records) -> dict[str, object]:
    rows = [{"seed": record["seed"], **row} for record in rotary for row in record["shifts"]]

    def most(key: str) -> float:
        return largest(row[key] for row in rows)

    def least(key: str) -> float:
        return smallest(row[key] for row in rows)

    def layers(key: str, start: int, stop: int | None) -> list[float]:
        return [error for row in rows for error in row[key][start:stop]]

    name = "transformer"
    first = largest(layers("key_errors", 0, 1) + layers("value_errors", 0, 1))
    deeper = smallest(layers("key_errors", 1, None) + layers("value_errors", 1, None))
    prefix = largest(record["prefix"] for record in rotary)
    bounds = [
        Bound("cache reused as a prefix: max |Δlogit|", name, prefix, FP32_BOUND),
        Bound("keys left, nothing in front: least max |Δlogit|", name, least("alone_left"), FP32_BOUND, False),
        Bound("keys turned on, nothing in front: max |Δlogit|", name, most("alone_turned"), FP32_BOUND),
        Bound("keys left, behind a prefix: least max |Δlogit|", name, least("left"), FP32_BOUND, False),
        Bound("keys turned on, behind a prefix: least max |Δlogit|", name, least("turned"), FP32_BOUND, False),
        Bound("the same: error of keys and values of layer 1", name, first, FP32_BOUND),
        Bound("the same: least error of keys or values of a deeper layer", name, deeper, FP32_BOUND, False),
        Bound("chunk read again behind the prefix: max |Δlogit|", name, most("reread"), FP32_BOUND),
    ]
    for record in placeless:
        model = record["model"]
        bounds += [
            Bound(
                "state, other counts of tokens: max |Δlogit|", model, largest(record["counted"].values()), FP32_BOUND
            ),
            Bound("state, text before the chunk unread: max |Δlogit|", model, record["unread"], FP32_BOUND, False),
            Bound("state, chunk read again: max |Δlogit|", model, record["reread"], FP32_BOUND),
        ]
    meaning = (
        "the paper's claim is too broad: a rotary cache is exact as a prefix, and its keys can be turned to any other "
        "position; what cannot be repaired is that deeper layers never saw what stands in front, and a recurrent "
        "state shares that: it has no position to repair, but a chunk's state knows only the chunk"
    )
    figures = {"transformer": list(map(_without, rotary)), "models": {r["model"]: _without(r) for r in placeless}}
    return part(meaning, bounds, **figures)


def _averages(records: Records) -> dict[str, object]:
    bounds: list[Bound] = []
    for record in records:
        model, unrolled, given = record["model"], record["unrolled"], record["given_inputs"]
        nearest = smallest(largest(row["layers"]) for row in record["mean"].values())
        told = smallest(row["max_abs_logit_error"] for row in record["mean"].values())
        bounds += [
            Bound("mean: distance from the nearest state read, its worst layer", model, nearest, FP32_BOUND, False),
            Bound("mean: least max |Δlogit|", model, told, FP32_BOUND, False),
        ]
        if unrolled:
            bounds.append(Bound("unrolled from texts read alone: error of layer 1", model, unrolled[0], FP32_BOUND))
        if unrolled and len(unrolled) > 1:
            worst = largest(unrolled[1:])
            bounds.append(Bound("the same: largest error of a deeper layer", model, worst, FP32_BOUND, False))
        if given:
            name = "unrolled, every layer given its inputs: largest error"
            bounds.append(Bound(name, model, largest(given), FP32_BOUND))
    meaning = (
        "the mean of two texts' states is none of the states that reading them leaves, in either order (measured for "
        "these texts, not proved for all); Eq. 9 is exact in layer 1, and above it only for the inputs that a layer "
        "really saw, which depend on what was read before"
    )
    return part(meaning, bounds, models={record["model"]: _without(record) for record in records})


def _without(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in ("part", "model")}
