"""What fewer bits cost and bring: bytes, perplexity, answers and speed of a model in several quantisations.

Quality is measured on the very same text and questions, so that differences are the quantisation's.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from precog.backbones.tenns.backbone import TennsBackbone
from precog.backbones.tenns.checkpoint import read_card
from precog.engine.grounded import GroundedSettings
from precog.evaluate.experiment import run
from precog.evaluate.perplexity import Perplexity, measure_perplexity
from precog.evaluate.reader import ParagraphReader
from precog.evaluate.squad import Squad, SquadSettings
from precog.evaluate.squad_data import Question
from precog.text.tokenizer import Tokenizer
from precog.train.quantise import Quantised

_TIMED_TOKENS, _TIMED_ROUNDS = 8, 5
_FIRST_TIMED_ID = 1000
_MODE = "inject_top1"


@dataclass(frozen=True)
class Trial:
    """What quality is measured on.

    Attributes:
        documents: token ids of held-out documents; no perplexity without.
        questions: SQuAD questions; no EM and F1 without.
        packed: measure with packed weights and BF16 products instead of unpacked ones in FP32.
        carried: perplexity with the state carried from segment to segment of a document.
        timed: also measure tokens per second.
    """

    documents: Sequence[Sequence[int]] = ()
    questions: Sequence[Question] = ()
    packed: bool = False
    carried: bool = True
    timed: bool = True


@dataclass
class Comparison:
    """Rows of the table, the source first.

    Args:
        tokenizer: the model's.
        trial: what is measured.
        say: told what is going on.
    """

    tokenizer: Tokenizer
    trial: Trial
    say: Callable[[str], None] = lambda _: None
    rows: list[dict[str, object]] = field(default_factory=list)
    _before: Perplexity | None = None

    def add_source(self, folder: Path) -> None:
        """Measures the model as it is, unpacked in FP32."""
        card, _ = read_card(folder)
        stored = sum(path.stat().st_size for path in folder.glob("model*.safetensors"))
        row: dict[str, object] = {**card.quantisation, "calibrated": False, "bytes": stored, "kinds": []}
        if self.trial.documents or self.trial.questions or self.trial.timed:
            packed = self.trial.packed and card.quantisation["matrices"] != "fp32"
            self._measure(row, TennsBackbone.load(folder, self.tokenizer, packed=packed))
        self.rows.append(row)

    def add(self, quantised: Quantised, *, calibrated: bool) -> None:
        """Measures a model in fewer bits, whether or not it will be written."""
        row: dict[str, object] = {
            **quantised.card.quantisation,
            "calibrated": calibrated,
            "bytes": quantised.num_bytes,
            "kinds": [asdict(kind) for kind in quantised.kinds],
        }
        if self.trial.documents or self.trial.questions or self.trial.timed:
            network, card = quantised.packed() if self.trial.packed else quantised.unpacked()
            self._measure(row, TennsBackbone(network, card, self.tokenizer))
            del network
            if self.trial.timed and not self.trial.packed:
                small, card = quantised.packed()
                rates = row["tokens_per_sec"]
                assert isinstance(rates, dict)
                rates["packed"] = tokens_per_sec(TennsBackbone(small, card, self.tokenizer))
        self.rows.append(row)

    def _measure(self, row: dict[str, object], backbone: TennsBackbone) -> None:
        if self.trial.documents:
            self.say(f"perplexity, {row['matrices']}")
            found = measure_perplexity(backbone, self.trial.documents, carried=self.trial.carried)
            self._before = self._before or found
            change, half = found.change_from(self._before)
            row["perplexity"] = {
                "value": found.value,
                "change": change,
                "change_half_interval": half,
                "num_tokens": found.num_tokens,
            }
        if self.trial.questions:
            self.say(f"questions, {row['matrices']}")
            reader = ParagraphReader(backbone, "fp16", GroundedSettings.from_card(backbone.card.decoding))
            report = run(Squad(self.trial.questions, self.trial.questions, reader, SquadSettings((_MODE,))))
            modes = report["modes"]
            assert isinstance(modes, dict)
            row["squad"] = {key: modes[_MODE][key] for key in ("em", "em_interval", "f1", "f1_interval")}
        if self.trial.timed:
            name = "packed" if self.trial.packed else "float32"
            row["tokens_per_sec"] = {name: tokens_per_sec(backbone)}


def tokens_per_sec(backbone: TennsBackbone) -> float:
    """Tokens a second of free decoding, scores of the whole vocabulary included: the best of some rounds."""
    state, _ = backbone.prefill([backbone.tokenizer.boundary_id, _FIRST_TIMED_ID])
    shortest = float("inf")
    for number in range(1 + _TIMED_ROUNDS):
        batch = backbone.open([state])
        started = time.perf_counter()
        for token in range(_FIRST_TIMED_ID, _FIRST_TIMED_ID + _TIMED_TOKENS):
            batch, hidden = backbone.step(batch, [token])
            backbone.logits(hidden).argmax(-1)
        if number:
            shortest = min(shortest, time.perf_counter() - started)
    return _TIMED_TOKENS / shortest
