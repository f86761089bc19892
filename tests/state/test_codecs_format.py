"""A record of every codec, read by the text of docs/format.md with NumPy alone."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from precog.records import RecordForm
from precog.state import CODECS, LayerSubset, Scaled, State, StateSpec, codec_named
from precog.store import Location
from precog.store.record import pack

DOCUMENT = Path(__file__).parents[2] / "docs" / "format.md"
MINE = "ab" * 32
SPECS = {
    "plain": StateSpec(4, 130, (0, 0), 2, MINE),
    "tailed": StateSpec(4, 128, (3, 5), 2, MINE, carries_tail=True),
    "ragged": StateSpec(
        4, 300, (0, 0), 0, MINE, layer_reals=(300, 7, 131, 64), window=(3, 20), scaled=(Scaled(80, 100, 100),)
    ),
}


def snippets():
    found = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    return [text for text in found if "def read_record" in text or "def state_rows" in text]


def state_of(spec):
    reals = torch.randn(4, spec.reals_per_layer, generator=torch.Generator().manual_seed(3))
    reals[0] *= 1e6  # beyond FP16
    for layer, count in enumerate(spec.layer_reals):
        reals[layer, count:] = 0
    return State(
        reals,
        tail=torch.linspace(-2, 2, 60).view(4, *spec.tail_shape) if spec.carries_tail else None,
        num_tokens=2,
        fingerprint=MINE,
        decay_time=torch.ones(4, spec.decay_groups),
    )


def stored_rows(state):
    return torch.cat((state.recurrent, state.tail.flatten(1)), 1) if state.tail is not None else state.recurrent


@pytest.mark.parametrize("subset", ["all", "0,2,3"])
@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
@pytest.mark.parametrize("name", CODECS)
def test_the_documented_snippet_reads_states_of_every_codec(tmp_path, name, spec, subset):
    codec, layers, state = codec_named(name), LayerSubset.parse(subset, 4), state_of(spec)
    layout = RecordForm(name, subset, "once", "float32", 8).layout(spec, 32000)
    record = pack(
        layout,
        Location(0, 0),
        state=codec.encode(state, spec, layers),
        tau=state.decay_time.numpy(),
        token_ids=[5, 6],
        suffix_array=None,
        fingerprint=bytes.fromhex(MINE),
    )
    (tmp_path / "000000.seg").write_bytes(layout.segment_header(0) + record)
    namespace = {}
    for text in snippets():
        exec(text, namespace)
    note, data, tau, tokens, _ = namespace["read_record"](tmp_path / "000000.seg", 0)
    rows = namespace["state_rows"](note, data)
    back = codec.decode(data, spec, layers, num_tokens=2, decay_time=tau)
    assert tokens.tolist() == [5, 6]
    assert tau.size == 4 * spec.decay_groups
    expected = stored_rows(back)[list(layers.indices)].double().numpy()
    atol = 0 if "rot" not in name else 1e-5 * np.abs(expected).max(1, keepdims=True)
    np.testing.assert_array_less(np.abs(rows - expected), 1e-6 * np.abs(expected) + atol + 1e-30)


def test_the_snippet_is_short_and_needs_numpy_alone():
    text = next(text for text in snippets() if "def state_rows" in text)
    assert len([line for line in text.splitlines() if line.strip()]) <= 45
    program = text + "\nimport sys\nassert not {'torch', 'precog'} & set(sys.modules)\n"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_notes_of_models_whose_rows_are_memory_alone_are_what_they_always_were():
    layout = RecordForm("fp16", "all", "once", "float32", 8).layout(SPECS["plain"], 32000)
    assert set(layout.note) == {"codec", "layers", "reals_per_layer", "tau", "encoding_dtype"}
