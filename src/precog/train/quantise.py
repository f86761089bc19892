"""A model folder in fewer bits: matrix by matrix, in memory for the result and one block.

Without text every matrix is rounded by itself. With some, blocks are rounded in order: each sees the activations that
the rounded blocks before it really give, and its rounding makes up for its own errors on them (`rounding`).
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor, nn

from precog.backbones.card import ModelCard
from precog.backbones.tenns.block import Linear, RmsNorm, TennsBlock
from precog.backbones.tenns.checkpoint import (
    SHARD_BYTES,
    NothingDrawn,
    empty_model,
    is_matrix,
    read_card,
    read_stored,
    scheme_of,
    unpack_checked,
    weights_digest,
    write_model,
)
from precog.backbones.tenns.config import TennsConfig
from precog.backbones.tenns.model import BOUNDARY_ID, TennsModel
from precog.backbones.tenns.packed import PackedTenns, assemble
from precog.backbones.tenns.quantise import SCHEMES, pack, unpack
from precog.backbones.tenns.target import refuse_existing
from precog.errors import InputError, ModelError, UsageError
from precog.train.rounding import round_compensated

_ROWS_TOGETHER = 8
_CALIBRATION_TOKENS = 256  # of a row: what the models were trained to read at a time


@dataclass(frozen=True)
class Kind:
    """Matrices of one kind over all layers.

    Attributes:
        name: such as ``project_in``.
        scheme: how they are stored now.
        parameters: how many weights.
        num_bytes: stored, scales included.
        relative_error: root mean square of the errors over that of the weights.
    """

    name: str
    scheme: str
    parameters: int
    num_bytes: int
    relative_error: float


@dataclass(frozen=True)
class Quantised:
    """A model in fewer bits, not yet written.

    Attributes:
        config: its shape.
        card: that of the source with the new quantisation; digests are those of the source.
        stored: the tensors of each weight, by suffix.
        kinds: what was done to which matrices.
    """

    config: TennsConfig
    card: ModelCard
    stored: dict[str, dict[str, Tensor]]
    kinds: tuple[Kind, ...]

    @property
    def num_bytes(self) -> int:
        """All tensors."""
        return sum(part.nbytes for parts in self.stored.values() for part in parts.values())

    def unpacked(self) -> tuple[TennsModel, ModelCard]:
        """The FP32 network of these weights, and its card."""
        model = empty_model(self.config)
        weights = {
            key: unpack(parts, scheme_of(key, len(model.state_dict()[key].shape), self.card.quantisation))
            for key, parts in self.stored.items()
        }
        model.load_state_dict(weights, strict=True, assign=True)
        return model.requires_grad_(False).eval(), self._digested()

    def packed(self) -> tuple[PackedTenns, ModelCard]:
        """The network that computes on the packed weights, and its card."""
        model = assemble(self.config, self.card.quantisation, lambda key, shape: self.stored[key])
        return model, self._digested()

    def _tensors(self) -> dict[str, Tensor]:
        return {key + suffix: part for key, parts in self.stored.items() for suffix, part in parts.items()}

    def _digested(self) -> ModelCard:
        return replace(self.card, weights_sha256=weights_digest(self._tensors()))

    def write(
        self, folder: Path, *, name: str, chunk_tokens: int | None = None, shard_bytes: int = SHARD_BYTES
    ) -> ModelCard:
        """Write it as a model folder.

        Args:
            folder: where to.
            name: of the new model.
            chunk_tokens: the chunk length on its card; that of the source when None.
            shard_bytes: no weight file is larger.

        Raises:
            UsageError: the folder exists.
            ModelError: the chunk length is out of range.
            StorageError: the disk is full or refuses.
        """
        refuse_existing(folder)
        notes = {**self.card.notes, "quantised_from": self.card.weights_sha256}
        chunk_tokens = self.card.chunk_tokens if chunk_tokens is None else chunk_tokens
        card = replace(self.card, name=name, chunk_tokens=chunk_tokens, notes=notes)
        return write_model(folder, self.config, self._tensors(), card, shard_bytes=shard_bytes, replace_old=False)


def check_table_fits(source: Path, embedding: str, shard_bytes: int) -> None:
    """Raises UsageError when the embedding table will be larger than a weight file may be; a tensor is never split."""
    _, config = read_card(source)
    bits = {"fp32": 32, "bf16": 16, "int8": 8}.get(embedding, 4)
    num_bytes = config.vocabulary * config.width * bits // 8
    if num_bytes > shard_bytes:
        raise UsageError(
            "the embedding table is larger than a weight file may be",
            given=f"{num_bytes} bytes as {embedding}",
            expected=f"at most {shard_bytes}",
            hint="take --embedding int4:32, or a larger --shard-mb",
        )


def quantise(
    source: Path,
    *,
    matrices: str,
    embedding: str = "int8",
    calibration: Int64[Tensor, "R T"] | None = None,
    on_block: Callable[[int], None] = lambda done: None,
) -> Quantised:
    """Store the weights of a model folder in fewer bits.

    Args:
        source: a TENNs model folder, in any quantisation.
        matrices: scheme of the matrices of the blocks: see ``SCHEMES``.
        embedding: scheme of embeddings and output head.
        calibration: token ids, each row opened by the boundary token; plain rounding when None.
        on_block: called with the number of blocks done.

    Raises:
        ModelError: the source is damaged, its weights are not finite, or a matrix does not fit the scheme.
    """
    for scheme in (matrices, embedding):
        if scheme not in SCHEMES:
            raise UsageError("no such quantisation", given=scheme, expected=", ".join(SCHEMES))
    card, config, stored = read_stored(source)
    quantisation = {"matrices": matrices, "embedding": embedding}
    work = _Work(config, card, stored, quantisation)
    work.run(calibration, on_block)
    # rounded weights score otherwise: what was fitted to the source's scores is not theirs
    card = replace(card, quantisation=quantisation, confidence={})
    return Quantised(config, card, work.done, work.kinds())


class _Work:
    def __init__(
        self, config: TennsConfig, card: ModelCard, stored: dict[str, dict[str, Tensor]], quantisation: dict[str, str]
    ) -> None:
        self.config, self.card, self.stored, self.quantisation = config, card, stored, quantisation
        self.shapes = {key: tuple(value.shape) for key, value in empty_model(config).state_dict().items()}
        self.done: dict[str, dict[str, Tensor]] = {}
        self._errors: dict[str, list[float]] = {}

    def kinds(self) -> tuple[Kind, ...]:
        return tuple(
            Kind(name, scheme_of(name, 2, self.quantisation), int(n), int(b), math.sqrt(error / max(power, 1e-300)))
            for name, (n, b, error, power) in self._errors.items()
        )

    def weight(self, key: str) -> Tensor:
        weight = unpack_checked(key, self.stored[key], self.shapes[key], self.card)
        if not torch.isfinite(weight).all():
            raise ModelError(f"weights are not finite: {key}")
        return weight

    def keep(self, key: str, weight: Tensor, moments: Tensor | None = None) -> None:
        """Stores a weight in its scheme; ``stored`` is copied where it is kept as it is."""
        scheme = scheme_of(key, weight.ndim, self.quantisation)
        try:
            parts = pack(weight, scheme) if moments is None else round_compensated(weight, scheme, moments)
        except ModelError as error:
            raise ModelError(
                f"{key}: {error.message}", given=error.given, expected=error.expected, hint=error.hint
            ) from error
        self.done[key] = parts
        if is_matrix(key, weight.ndim):
            kind = key if not key.startswith("blocks.") else key.split(".", 2)[2]
            row = self._errors.setdefault(kind, [0.0, 0.0, 0.0, 0.0])
            for i, value in enumerate(
                (
                    weight.numel(),
                    sum(part.nbytes for part in parts.values()),
                    (unpack(parts, scheme) - weight).double().square().sum().item(),
                    weight.double().square().sum().item(),
                )
            ):
                row[i] += value

    def restored(self, key: str) -> Tensor:
        return unpack(self.done[key], scheme_of(key, len(self.shapes[key]), self.quantisation))

    def run(self, calibration: Tensor | None, on_block: Callable[[int], None]) -> None:
        self.keep("embedding.weight", self.weight("embedding.weight"))
        x = None if calibration is None else nn.functional.embedding(calibration, self.restored("embedding.weight"))
        for number in range(self.config.layers):
            x = self._block(f"blocks.{number}.", x, calibration)
            on_block(number + 1)
        self.keep("norm.weight", self.weight("norm.weight"))
        if not self.config.tied:
            moments = None
            if x is not None:
                norm = RmsNorm(self.config.width)
                norm.load_state_dict({"weight": self.restored("norm.weight")})
                moments = _moments(norm(x).detach())
            self.keep("head.weight", self.weight("head.weight"), moments)

    @torch.no_grad()
    def _block(self, prefix: str, x: Tensor | None, tokens: Tensor | None) -> Tensor | None:
        keys = [key for key in self.shapes if key.startswith(prefix)]
        weights = {key: self.weight(key) for key in keys}
        moments: dict[str, Tensor] = {}
        if x is not None and tokens is not None:
            with torch.device("meta"), NothingDrawn():
                block = TennsBlock(self.config)
            block.load_state_dict({key.removeprefix(prefix): weights[key] for key in keys}, assign=True)
            watched = {f"{prefix}{name}.weight": m for name, m in block.named_modules() if isinstance(m, Linear)}
            hooks = [module.register_forward_pre_hook(_adding(moments, key)) for key, module in watched.items()]
            for _ in _outputs(block, x, tokens):
                pass
            for hook in hooks:
                hook.remove()
        for key in keys:
            self.keep(key, weights[key], moments.pop(key, None))
        if x is None or tokens is None:
            return None
        block.load_state_dict({key.removeprefix(prefix): self.restored(key) for key in keys}, assign=True)
        return torch.cat(list(_outputs(block, x, tokens)))


def _adding(moments: dict[str, Tensor], key: str) -> Callable[[nn.Module, Sequence[Tensor]], None]:
    def add(module: nn.Module, inputs: Sequence[Tensor]) -> None:
        moments[key] = moments.get(key, 0) + _moments(inputs[0])

    return add


def _moments(x: Tensor) -> Tensor:
    flat = x.flatten(0, -2).double()
    return flat.T @ flat


def _outputs(block: TennsBlock, x: Tensor, tokens: Tensor) -> Iterator[Tensor]:
    """The block's outputs, some rows at a time; every row begins with having read nothing."""
    for start in range(0, x.shape[0], _ROWS_TOGETHER):
        some = slice(start, start + _ROWS_TOGETHER)
        segments = (tokens[some] == BOUNDARY_ID).cumsum(1) if block.config.conv_boundary == "segment" else None
        yield block(x[some], None, None, segments, None, None)[0]


def calibration_rows(documents: Sequence[Sequence[int]], boundary_id: int) -> Int64[Tensor, "R T"]:
    """Documents as rows of equal length, each opened by the boundary token; what does not fill a row is left out.

    Raises:
        InputError: there is not one row of text.
    """
    size = _CALIBRATION_TOKENS - 1
    rows = [
        [boundary_id, *document[start : start + size]]
        for document in documents
        for start in range(0, len(document) - size + 1, size)
    ]
    if not rows:
        raise InputError("the calibration text is too short", expected=f"a document of at least {size} tokens")
    return torch.tensor(rows)
