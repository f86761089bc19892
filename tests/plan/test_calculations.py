"""The paper's numbers follow from its constants, and from no others."""

import math
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import TennsModel
from precog.plan.claim import claim, comes_out, digits, shown
from precog.plan.claims import claims
from precog.plan.claims_of_appendices import SCALING
from precog.plan.compute import parameters, training_flops, training_readings
from precog.plan.fading import deposits_that_weigh, horizon_tokens, norm_of_mean
from precog.plan.inconsistency import inconsistencies
from precog.plan.latency import (
    cache_tok_per_sec,
    halving_tokens,
    injection_overhead_most_sec,
    injection_overhead_sec,
    load_sec,
    overhead_speedup,
    prefill_sec,
    state_tok_per_sec,
    tokens_per_joule,
    ttft_sec,
    ttft_speedup,
    weight_bytes,
)
from precog.plan.load_table import load_claims, load_times, readings
from precog.plan.paper import KB, MB, PAPER, Paper
from precog.plan.storage import (
    cache_bytes,
    cache_token_bytes,
    complex_state_bytes,
    conv_tail_bytes,
    crossover_tokens,
    key_bytes,
    semantic_bytes,
    state_bytes,
    ungrouped_ratio,
)

Number = Callable[[Paper], int | float]

# what, how, the number, significant digits that it is given to
NUMBERS: list[tuple[str, Number, int | float, int]] = [
    ("state", lambda p: state_bytes(p.model), 196_608, 6),
    ("state of a layer", lambda p: state_bytes(p.model, 1), 8_192, 4),
    ("complex state", lambda p: complex_state_bytes(p.model), 393_216, 6),
    ("convolution's tail", lambda p: conv_tail_bytes(p.model) / KB, 576, 6),
    ("parameters", lambda p: parameters(p.model), 1_190_502_400, 10),
    ("cache of a token", lambda p: cache_token_bytes(p.llama), 32_768, 5),
    ("cache without grouped queries", lambda p: ungrouped_ratio(p.llama), 4, 3),
    ("cache over state", lambda p: cache_bytes(p.llama, p.edge.chunk_tokens) / state_bytes(p.model), 85.3, 3),
    ("cache over state, long", lambda p: cache_bytes(p.llama, p.edge.long_tokens) / state_bytes(p.model), 500, 4),
    ("crossover", lambda p: crossover_tokens(p.llama, p.model), 6, 6),
    ("cache of the same size", lambda p: cache_bytes(p.same_size, p.edge.chunk_tokens) / MB, 96, 6),
    ("its heads", lambda p: ungrouped_ratio(p.same_size), 1, 6),
    ("keys at a byte", lambda p: key_bytes(p.edge.corpus_chunks, p.edge.key_dim, 1), 3.84e6, 4),
    ("keys at FP32", lambda p: key_bytes(p.edge.corpus_chunks, p.edge.key_dim, 4), 15.36e6, 4),
    ("states of the corpus", lambda p: p.edge.corpus_chunks * state_bytes(p.model), 1.966e9, 4),
    ("states of SQuAD", lambda p: p.edge.squad_chunks * state_bytes(p.model), 0.4064e9, 4),
    ("trajectory", lambda p: p.edge.chunk_tokens * state_bytes(p.model) / MB, 96, 6),
    ("semantic memory", lambda p: semantic_bytes(p.memory.domains, p.memory.sub_clusters, p.model), 3_932_160, 7),
    ("of the experiment",
     lambda p: semantic_bytes(p.memory.domains, p.memory.experiment_sub_clusters, p.model) / KB, 9_600, 6),
    ("chunks on a disk", lambda p: p.edge.consumer_bytes / state_bytes(p.model), 5.09e6, 3),
    ("premium", lambda p: state_bytes(p.model) / p.edge.text_bytes, 192, 4),
    ("counted premium", lambda p: state_bytes(p.model) / p.edge.counted_text_bytes, 89.4, 3),
    ("premium on SQuAD", lambda p: state_bytes(p.model) / p.edge.paragraph_bytes, 252, 3),
    ("prefill", lambda p: prefill_sec(p.edge.chunk_tokens, p.edge.tok_per_sec), 26.95, 4),
    ("query", lambda p: 1e3 * prefill_sec(p.edge.query_tokens, p.edge.tok_per_sec), 526, 3),
    ("overhead", lambda p: 1e3 * injection_overhead_sec(p.edge), 6, 4),
    ("overhead at most",
     lambda p: 1e3 * injection_overhead_most_sec(p.edge, p.model, p.platforms[0].bytes_per_sec), 7.05, 3),
    ("TTFT", lambda p: 1e3 * ttft_sec(p.edge, p.edge.query_tokens, first_token_pass=True), 585.4, 4),
    ("TTFT without a pass", lambda p: 1e3 * ttft_sec(p.edge, p.edge.query_tokens, first_token_pass=False), 533, 3),
    ("TTFT as counted", lambda p: ttft_sec(p.edge, p.edge.counted_query_tokens, first_token_pass=False), 1.06, 3),
    ("speedup of overhead", lambda p: overhead_speedup(p.edge), 4_491, 4),
    ("speedup of TTFT", lambda p: ttft_speedup(p.edge), 47.0, 3),
    ("halving at FP16", lambda p: halving_tokens(p.llama, weight_bytes(p.model)), 73_242, 5),
    ("halving at INT4", lambda p: halving_tokens(p.llama, weight_bytes(p.model, 4)), 18_311, 5),
    ("tokens per joule", lambda p: tokens_per_joule(p.edge.tok_per_sec, p.edge.watts), 19, 4),
    ("FLOP", lambda p: training_flops(p.model.nominal_parameters, p.training.tokens), 8.64e20, 3),
    ("FLOP of GPU-hours", lambda p: training_readings(p.model, p.training)[0].most_flops, 4.04e20, 3),
    ("MFU of GPU-hours", lambda p: training_readings(p.model, p.training)[0].utilisation, 2.14, 3),
    ("MFU of hours", lambda p: training_readings(p.model, p.training)[1].utilisation, 0.267, 3),
    ("deposits", lambda p: deposits_that_weigh(p.memory.decay), 158, 3),
    ("norm, πk", lambda p: norm_of_mean(p.memory.composed, p.memory.similarities[0]), 0.775, 3),
    ("norm, without", lambda p: norm_of_mean(p.memory.composed, p.memory.similarities[1]), 0.949, 3),
    ("examples of Table 8", lambda p: sum(p.answers.shares), 100, 4),
    ("shortest horizon", lambda p: horizon_tokens(p.memory.dt_high, p.memory.rate, p.memory.threshold), 138, 3),
    ("longest horizon", lambda p: horizon_tokens(p.memory.dt_low, p.memory.rate, p.memory.threshold), 13_800, 3),
]  # fmt: skip


def comes(value: int | float, number: int | float, figures: int) -> bool:
    return float(f"{value:.{figures - 1}e}") == number


@pytest.mark.parametrize(("what", "how", "number", "figures"), NUMBERS, ids=[row[0] for row in NUMBERS])
def test_every_number(what: str, how: Number, number: float, figures: int) -> None:
    assert comes(how(PAPER), number, figures)


def constants(value: Any) -> Iterator[tuple[str, Any]]:
    """Every constant, and the whole with that one changed by a tenth, a whole number by at least one."""
    if is_dataclass(value) and not isinstance(value, type):
        for part in fields(value):
            for name, changed in constants(getattr(value, part.name)):
                yield f"{part.name}.{name}", replace(value, **{part.name: changed})
    elif isinstance(value, tuple):
        for place, item in enumerate(value):
            for name, changed in constants(item):
                yield f"{place}.{name}", (*value[:place], changed, *value[place + 1 :])
    elif isinstance(value, int):
        yield "", max(value + 1, round(1.1 * value))
    elif isinstance(value, float):
        yield "", 1.1 * value


CHANGED = list(constants(PAPER))


def told(paper: Paper) -> list[str]:
    """What comes out: claims that agree, and the way to count bytes that gives each cell of Table 5."""
    rows = claims(paper)
    found = [f"{row.where}: {row.what}" for row in rows if row.agrees]
    return found + [f"{row.what}: {row.why}" for row in rows if row.where == "Table 5" and not row.agrees]


TOLD = told(PAPER)


@pytest.mark.parametrize(("name", "paper"), CHANGED, ids=[name for name, _ in CHANGED])
def test_no_constant_can_change_without_a_number(name: str, paper: Paper) -> None:
    lost = [what for what, how, number, figures in NUMBERS if not comes(how(paper), number, figures)]
    now = told(paper)
    lost += [what for what in TOLD if what not in now]
    assert lost


def test_the_constants_are_all_changed_in_turn() -> None:
    names = {name.strip(".") for name, _ in CHANGED}
    assert {"model.layers", "llama.kv_heads", "platforms.4.bytes_per_sec", "answers.shares.5"} <= names
    assert len(names) == len(CHANGED) > 70


def test_a_published_model_has_the_counted_parameters() -> None:
    import torch

    with torch.device("meta"):
        model = TennsModel(TennsConfig.preset("paper"))
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters(PAPER.model)


def test_table_4_comes_out_in_every_cell() -> None:
    rows = [row for row in claims() if row.where == "Table 4"]
    assert len(rows) == 2 * len(SCALING) == 14
    assert all(row.agrees for row in rows)


def test_every_cell_of_table_5_comes_out_in_one_of_the_ways_to_count() -> None:
    cells = [row for row in load_claims() if row.where == "Table 5" and row.unit != "×"]
    assert len(cells) == 10
    for row in cells:
        printed = float(row.printed.split()[0])
        assert 1 <= row.computed / printed < 1.0737  # 1 GiB / 1 GB
        named = "takes 1 MB" in row.why or "takes 1 KB" in row.why
        assert row.agrees or named or "0.417 µs, which was cut off" in row.why
    assert sum(row.agrees for row in cells) == 3
    assert sum("cut off" in row.why for row in cells) == 1
    assert all(row.ratio == pytest.approx(256 / 3) for row in load_times())
    assert [way.num_bytes for way in readings(16 * MB, MB)] == [16 * MB, 16e6, 16.384e6]
    assert [way.num_bytes for way in readings(192 * KB, KB)] == [196_608, 192_000]


def test_load_time_has_a_fixed_part_and_one_that_grows() -> None:
    assert load_sec(4.2e9, 4.2e9, 1e-4) == pytest.approx(1.0001)


def test_a_transformer_halves_where_its_cache_weighs_as_much_as_its_weights_on_every_platform() -> None:
    weights = weight_bytes(PAPER.model)
    half = halving_tokens(PAPER.llama, weights)
    for platform in PAPER.platforms:
        full = cache_tok_per_sec(platform.bytes_per_sec, weights, PAPER.llama, 0)
        assert cache_tok_per_sec(platform.bytes_per_sec, weights, PAPER.llama, half) == pytest.approx(full / 2)
        assert state_tok_per_sec(platform.bytes_per_sec, weights, PAPER.model) == pytest.approx(full, rel=1e-4)
    hbm = PAPER.platforms[-1].bytes_per_sec
    assert state_tok_per_sec(hbm, weights, PAPER.model) == pytest.approx(1395.7, abs=0.1)


@pytest.mark.parametrize(
    ("printed", "value", "expected"),
    [
        ("~4500×", 4491.2, True), ("~4500×", 4551, False), ("0.41 µs", 0.417, False), ("0.42", 0.417, True),
        ("2.0", 2.048, True), ("2.0", 2.06, False), ("<6 ms", 6.0, False), ("<6 ms", 5e-3 / 1e-3 + 1e-3 / 1e-3, False),
        ("<6 ms", 5.99, True), (">10,000×", 10_001, True), (">10,000×", 4491, False), ("15+", 15.0, True),
        ("15+", 14.9, False), ("-0.5", -0.5, True), ("8", 7.5, True), ("four orders", 3.65, True),
        ("four orders", 3.4, False), ("0 KB", 0, True), ("196,608 B", 196_608, True), ("196,608 B", 196_609, False),
    ],
)  # fmt: skip
def test_a_printed_number_comes_out_to_its_digits(printed: str, value: int | float, expected: bool) -> None:
    assert comes_out(value, printed) is expected


def test_what_has_no_number_is_no_claim() -> None:
    with pytest.raises(ValueError, match="no number"):
        claim("Table 1", "nothing", "none", 1.0)


def test_digits_and_how_a_number_is_shown() -> None:
    assert [digits(text) for text in ("26.95", "0.41", "4500", "0", "10000", "196608", "-15.0")] == [
        4,
        2,
        2,
        1,
        1,
        6,
        3,
    ]
    assert shown(26.947368, "s", "26.95 s") == "26.947 s"
    assert shown(196_608, "B", "196,608 B") == "196,608 B"
    assert shown(85.3333, "×", "85×") == "85.3×"
    assert shown(0.41739, "µs", "0.41 µs") == "0.417 µs"


def test_claims_explain_what_does_not_agree_and_fit_into_json() -> None:
    rows = claims()
    assert all(row.why for row in rows if not row.agrees)
    assert len({(row.where, row.what, row.printed) for row in rows}) == len(rows)
    assert all(math.isfinite(row.computed) for row in rows)
    disagreeing = {(row.where, row.printed) for row in rows if not row.agrees}
    assert ("Section 4.4", "~16 MB") in disagreeing
    assert ("Appendix D.6", "26.95 s") not in disagreeing
    assert set(rows[0].to_json()) == {"where", "what", "printed", "computed", "unit", "ours", "agrees", "why"}


def test_all_inconsistencies_are_told_with_the_numbers_that_come_out() -> None:
    rows = {row.number: row for row in inconsistencies()}
    assert list(rows) == list(range(1, 33))
    assert all(row.printed and row.ours and row.why.endswith((".", ")")) for row in rows.values())
    for number, text in {
        2: "393,216 B complex", 3: "576 KB more", 5: "585 ms in all", 6: "96 MB",
        7: "3.84 MB at 1 byte, 15.4 MB at FP32", 9: "15 F1", 14: "158 deposits", 15: "0.77 to 0.95",
        20: "214 % or 27 %", 22: "4,491× and 47×", 23: "1.06 s", 24: "90× and 252×",
        25: "4,491× at 512 tokens, 1,123× at 128", 26: "0.9 F1 against 0.2", 27: "9.83 MB", 30: "138 to 13,816",
    }.items():  # fmt: skip
        assert text in rows[number].ours
        assert rows[number].computed is not None
    assert rows[1].computed is None
    assert rows[1].to_json()["what"] == "sign of the recurrence"
