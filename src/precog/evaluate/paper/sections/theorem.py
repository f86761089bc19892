"""Theorem 1 and Proposition 1 in numbers, and where the identity stops."""

from collections.abc import Mapping, Sequence
from typing import Any

from precog import figures
from precog.evaluate.paper.findings import Drawing, Findings, Written
from precog.evaluate.paper.report import Compared, Grid, Picture, Section
from precog.evaluate.paper.wording import percent

__all__ = ["theorem"]

_MODELS = {"given": "the model", "diagonal": "random, the paper's recurrence", "transformer": "random transformer"}
_PARTS = {
    "exactness": "reading in one pass against reading from the state",
    "sufficiency": "Proposition 1: nothing but the state carries the context",
    "convolution": "the convolution at the boundary (inconsistency 3)",
    "positions": "positions: a rotary cache, and a state (inconsistency 8)",
    "averages": "averages, and the unrolled sum (inconsistencies 10 and 21)",
}


def theorem(findings: Findings) -> Written | None:
    """The section; None if it was not measured."""
    report = findings.reports.get("theorem")
    if report is None:
        return None
    parts = report["parts"]
    return Written(
        Section(
            "Theorem 1: injecting a state is reading the text (section 4.3, appendix A)",
            text=(
                "Context and question are read in one pass, and the question again from the state that the context "
                f"left: {report['texts']} random and {report['texts']} real texts of {report['chunk_tokens']} tokens, "
                f"questions of {report['question_tokens']}, from nothing and from a state that had read something "
                "before, for the model and for a small random one with the paper's diagonal recurrence.",
                "Everything that is judged holds." if report["holds"] else "Something that is judged does not hold.",
            ),
            compared=_compared(parts),
            grids=[
                _storages(parts["exactness"]["rows"]),
                *(_bounds(title, parts[key]) for key, title in _PARTS.items()),
            ],
            pictures=[
                Picture(
                    "theorem-1-errors",
                    "Error of the state while the question is read, the worst layer and the worst text: ‖Δh‖∞ / ‖h‖∞ "
                    "after the state was stored at the boundary.",
                    "Errors by number of question tokens, and by layer at the end, a line for each precision.",
                )
            ],
            notes=[f"{title[0].upper()}{title[1:]}: {parts[key]['meaning']}." for key, title in _PARTS.items()],
        ),
        (Drawing("theorem-1-errors", _picture(report["curves"])),),
    )


def _picture(curves: Sequence[Mapping[str, Any]]) -> figures.Picture:
    own = [curve for curve in curves if curve["model"] == "given"]
    precisions = [
        figures.StoredPrecision(
            curve["stored"].upper(),
            curve["worst"],
            [2.0**-10] * len(curve["worst"]) if curve["stored"] == "fp16" else None,
            [layer[-1] for layer in curve["layers"]],
        )
        for curve in own
    ]
    layers = list(range(1, len(own[0]["layers"]) + 1))
    return figures.ErrorGrowth(
        "A state stored at the boundary, while a question is read", own[0]["tokens"], precisions, layers, "states"
    )


def _compared(parts: Mapping[str, Any]) -> list[Compared]:
    own = parts["exactness"]["rows"]["given"]
    rounded = own["fp16"]
    after = rounded["continuation"]
    rows = [
        Compared(
            "states stored as computed (FP32): largest difference of a logit",
            "identical",
            f"{own['fp32']['max_abs_logit_error']:.1e}",
            "Sums are rounded in another order; nothing else differs.",
        ),
        Compared(
            "states stored in FP16: largest difference of a logit",
            "–",
            f"{rounded['max_abs_logit_error']:.1e}; the same word most probable after "
            f"{percent(rounded['argmax_agreement'], 2)} of {rounded['positions']:,} tokens",
            "What the paper's tables would show as noise.",
        ),
        Compared(
            f"states stored in FP16: relative error of the worst layer after {after['tokens']} tokens",
            "about 2^-10 = 9.8e-4, accumulated",
            f"{after['inf_norm']:.1e}",
            "One rounding at the boundary; it fades as the model forgets, and does not accumulate.",
        ),
    ]
    rows += [
        Compared(
            "the convolution crosses the boundary, and its tail is not in the state",
            "identical, by the proof",
            f"logits differ by {bound['value']:.2g} or more",
            "The proof leaves the convolution out (inconsistency 3). Ours never crosses the boundary.",
        )
        for bound in parts["convolution"]["bounds"]
        if bound["model"] == "given" and "any input of the tail lost" in bound["name"]
    ]
    positions = {bound["name"]: bound["value"] for bound in parts["positions"]["bounds"]}
    prefix, left = (
        positions.get("cache reused as a prefix: max |Δlogit|"),
        [value for name, value in positions.items() if name.startswith("keys left, behind")],
    )
    if prefix is not None and left:
        rows.append(
            Compared(
                "a transformer's cache at the positions it was made for / behind other text",
                "invalid at any other position",
                f"{prefix:.1e} / {left[0]:.2g} or more",
                "As a prefix it is exact, and keys can be turned to other positions; what cannot be repaired is that "
                "deeper layers never saw the text in front, which a chunk's state shares (inconsistency 8).",
            )
        )
    return rows


def _storages(rows: Mapping[str, Any]) -> Grid:
    cells = [
        (
            _MODELS[model],
            storage.upper(),
            f"{row['max_abs_logit_error']:.1e}",
            percent(row["argmax_agreement"], 2),
            f"{row['continuation']['inf_norm']:.1e}",
        )
        for model, storages in rows.items()
        for storage, row in storages.items()
    ]
    columns = ("model", "state stored as", "max |Δlogit|", "same word", "worst layer ‖Δh‖∞ / ‖h‖∞ later")
    return Grid("storage of the state at the boundary", columns, cells)


def _bounds(title: str, found: Mapping[str, Any]) -> Grid:
    rows = [
        (
            bound["name"],
            _MODELS.get(bound["model"], bound["model"]),
            f"{bound['value']:.2g}",
            f"{bound['kind']} {bound['bound']:.2g}",
            ("yes" if bound["holds"] else "no") + ("" if bound["judged"] else " (expected, not judged)"),
        )
        for bound in found["bounds"]
    ]
    return Grid(title, ("what", "of", "value", "bound", "holds"), rows)
