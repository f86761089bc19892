"""Time to the first token, measured on the machine of the run; on the paper's device it is calculated."""

from collections.abc import Mapping
from typing import Any

from precog import figures
from precog.evaluate.paper.findings import Drawing, Findings, Written
from precog.evaluate.paper.report import Compared, Grid, Picture, Section
from precog.evaluate.paper.wording import points, seconds

__all__ = ["latency"]

_PAPER_CHUNK = 512
_STAGES = {"encode": "encode the question", "search": "search", "load": "load and check the state", "inject": "inject"}


def latency(findings: Findings) -> Written | None:
    """The section; None if it was not measured."""
    report = findings.reports.get("ttft")
    if report is None:
        return None
    values = report["values"]
    row = min(values["in_context"], key=lambda entry: abs(entry["context_tokens"] - _PAPER_CHUNK))
    machine = report["machine"]["accelerator"] or report["machine"]["cpu"]
    rows = [
        (
            f"{entry['context_tokens']:,}",
            seconds(entry["ttft_sec"]),
            points(entry["ttft_over_inject"]),
            points(entry["tokens_over_inject"]),
        )
        for entry in values["in_context"]
    ]
    columns = ("context tokens", "TTFT in context", "/ TTFT injected", "tokens read / injected")
    return Written(
        Section(
            "Time to the first token, measured (Table 2, Figure 3)",
            compared=_compared(values, row, machine),
            notes=[
                f"Missed on this run: {bound['meaning']}: {points(bound['value'], 2)}, not {bound['relation']} "
                f"{bound['target']:g}."
                for bound in report["ratios"].values()
                if not bound["ok"]
            ],
            grids=[Grid("reading in context against injecting", columns, rows)],
            pictures=[
                Picture(
                    "first-token-measured",
                    f"Stages until the first token, measured on {machine}.",
                    "Stages of injecting and of reading in context on a logarithmic axis of time.",
                )
            ],
        ),
        (Drawing("first-token-measured", _picture(values, row)),),
    )


def _compared(values: Mapping[str, Any], row: Mapping[str, Any], machine: str) -> list[Compared]:
    """The paper's numbers beside what was measured; the row is the one of the paper's chunk."""
    overhead, inject = values["injection_overhead"]["median_sec"], values["ttft_inject"]["median_sec"]
    reading = row["ttft_sec"] - values["ttft_none"]["median_sec"]
    stages = ", ".join(f"{title} {seconds(values[name]['median_sec'])}" for name, title in _STAGES.items())
    return [
        Compared(
            "what injection adds to a question without context",
            "< 6 ms",
            seconds(overhead),
            f"{stages}. The paper calls this TTFT in Table 2; it is not: the question has to be read too "
            "(inconsistency 5).",
        ),
        Compared(
            "time to the first token, injected",
            "585 ms (19 tokens/s)",
            seconds(inject),
            f"{machine}, one thread or one device; questions of {points(values['question_tokens'])} tokens on average.",
        ),
        Compared(
            f"reading {row['context_tokens']:,} tokens at every question",
            "26.95 s (19 tokens/s)",
            seconds(max(reading, 0)),
            "Another machine reads faster, and in parallel; the ratio below is what carries over.",
        ),
        Compared(
            "in-context TTFT / injected TTFT",
            "47 ((26.95 + 0.585) / 0.585)",
            points(row["ttft_over_inject"]),
            f"The paper's 4,500 divides reading by the overhead alone (inconsistency 22); that ratio is "
            f"{points(row['reading_over_injection_overhead'], 0)} here. Bounded by the tokens read: "
            f"{points(row['tokens_over_inject'])} times as many. Encoding and searching count for injecting only.",
        ),
        Compared(
            "shortest context for which injecting is quicker",
            "–",
            "none" if values["crossover_tokens"] is None else f"{points(values['crossover_tokens'])} tokens",
            "Below it, reading again is as quick.",
        ),
    ]


def _picture(values: Mapping[str, Any], row: Mapping[str, Any]) -> figures.Picture:
    parts = {title: values[name]["median_sec"] for name, title in _STAGES.items()}
    question = values["ttft_inject"]["median_sec"] - sum(parts.values())
    injected = [figures.Stage(title, sec) for title, sec in parts.items()]
    finding = [stage for stage in injected if stage.name in (_STAGES["encode"], _STAGES["search"])]
    reading = max(row["ttft_sec"] - values["ttft_none"]["median_sec"], 0.0)
    tokens = f"read {row['context_tokens']:,} tokens"
    return figures.Waterfall(
        "Time to the first token, measured",
        [
            figures.Way("state injected", [*injected, figures.Stage("read the question", max(question, 0.0))]),
            figures.Way(
                "read in context",
                [
                    *finding,
                    figures.Stage(tokens, reading),
                    figures.Stage("read the question", values["ttft_none"]["median_sec"]),
                ],
            ),
        ],
    )
