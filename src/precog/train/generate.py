"""Questions that a model writes itself: a chunk's state and an answer in it, turned into a question about it.

Reading comprehension that people wrote covers few texts; a model that has learned to ask from it can ask about any
text. `ReversedBatches` trains the asking, `write_questions` asks, and a model that answers judges: a question stays
when its answer is probable enough under grounded decoding (round-trip consistency, Alberti et al. 2019,
arXiv 1906.05416). The answers are spans that the rules of data preparation have found.
"""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from numpy.typing import NDArray
from torch import Tensor

from precog.backbones.tenns.model import TennsModel
from precog.backbones.tenns.step import model_step
from precog.train.data.batches import Batch, QuestionBatches
from precog.train.data.rows import Kind, PreparedSet, write_columns
from precog.train.data.tokens import BOUNDARY_ID, EOS_ID, PROMPT, Pieces
from precog.train.objective import LossWeights, score
from precog.train.questions import QuestionBatch

ASKING = "###Answer: {answer} ###Question:"
_BEFORE, _AFTER = PROMPT.split("{question}")
_QUESTION = re.compile(r"[A-Z0-9\"'].{8,200}\?")


@dataclasses.dataclass(frozen=True)
class Asking:
    """How questions are written.

    Attributes:
        chunks: chunks that are read at once.
        questions_per_chunk: answers asked for in each.
        max_tokens: of a question.
        temperature: of sampling.
        least_probability: of the answer, given the chunk and the question, for a question to stay.
        seed: of answers and sampling.
    """

    chunks: int = 256
    questions_per_chunk: int = 4
    max_tokens: int = 28
    temperature: float = 0.6
    least_probability: float = 0.1
    seed: int = 0


class ReversedBatches:
    """Batches whose rows give the answer and want the question; rows too long for their width keep their own form.

    Train on them with weights for the answer tokens only: ``grounded_weight=0``.
    """

    def __init__(self, source: QuestionBatches, pieces: Pieces) -> None:
        self._source, self._pieces = source, pieces

    def batch(self, step: int) -> Batch:
        """The reversed batch of a step."""
        batch = self._source.batch(step)
        out = batch.copy()
        questions, prompt_len, row_len = (batch[name].copy() for name in ("questions", "prompt_len", "row_len"))
        width = questions.shape[1]
        rows = [r for r in range(len(row_len)) if row_len[r] - prompt_len[r] > 1]
        texts = [self._pieces.decode(questions[r, 1 : prompt_len[r]].tolist()) for r in rows]
        answers = [self._pieces.decode(questions[r, prompt_len[r] : row_len[r] - 1].tolist()) for r in rows]
        prompts = self._pieces.encode([ASKING.format(answer=answer) for answer in answers])
        targets = self._pieces.encode([text.removeprefix(_BEFORE).removesuffix(_AFTER) for text in texts])
        for r, prompt, target in zip(rows, prompts, targets, strict=True):
            ids = [BOUNDARY_ID, *prompt, *target, EOS_ID]
            if len(ids) <= width:
                questions[r, : len(ids)], questions[r, len(ids) :] = ids, 0
                prompt_len[r], row_len[r] = 1 + len(prompt), len(ids)
        out["questions"], out["prompt_len"], out["row_len"] = questions, prompt_len, row_len
        return out


@torch.no_grad()
def sample_segments(
    model: TennsModel,
    states: Tensor,
    prompts: Int64[Tensor, "R U"],
    lengths: Int64[Tensor, " R"],
    asking: Asking,
    generator: torch.Generator,
    dtype: torch.dtype | None = None,
) -> NDArray[np.int64]:
    """Continue R prompts, each from its own state [L, R, S]; ids [R, max_tokens], the end token from its end on."""
    read = model(prompts, state=states, lengths=lengths, dtype=dtype)
    hidden = read.hidden.gather(1, (lengths - 1)[:, None, None].expand(-1, 1, read.hidden.shape[-1]))[:, 0]
    state, tail = read.state, read.tail
    done = torch.zeros(len(prompts), dtype=torch.bool, device=prompts.device)
    out = []
    for number in range(asking.max_tokens):
        logits = model.logits(hidden).float() / asking.temperature
        noise = torch.empty_like(logits).exponential_(generator=generator).log_().neg_()  # the Gumbel trick
        token = torch.where(done, EOS_ID, (logits + noise).argmax(-1))
        out.append(token)
        done = done | (token == EOS_ID)
        if number % 8 == 7 and bool(done.all()):
            break
        hidden, state, tail, _ = model_step(model, token, state, tail, hidden.dtype)
    tokens = torch.stack(out, dim=1).cpu().numpy()
    return np.pad(tokens, ((0, 0), (0, asking.max_tokens - tokens.shape[1])), constant_values=EOS_ID)


def is_question(text: str, answer: str) -> bool:
    """Whether a sampled text is one question that does not give its answer away."""
    return bool(_QUESTION.fullmatch(text)) and text.count("?") == 1 and answer.lower() not in text.lower()


def write_questions(
    asker: TennsModel,
    answerer: TennsModel,
    prepared: PreparedSet,
    chunks: NDArray[np.int64],
    out: Path,
    device: torch.device,
    asking: Asking,
    dtype: torch.dtype | None = None,
    on_progress: Callable[[int, int, int], None] = lambda done, of, kept: None,
) -> int:
    """Ask about chunks of a prepared set and write the questions that stay as a prepared set.

    Args:
        asker: trained on `ReversedBatches`.
        answerer: the judge.
        prepared: whose chunks and answer spans are used.
        chunks: indices of the chunks.
        out: folder of the new set; not written when no question stays.
        device: of both models.
        asking: how.
        dtype: compute dtype.
        on_progress: called with chunks done, chunks in all and questions kept.

    Returns:
        The number of questions kept.
    """
    pieces = Pieces()
    rng = np.random.default_rng(asking.seed)
    generator = torch.Generator(device).manual_seed(asking.seed)
    width = prepared.widths[1]
    kept_chunks: list[int] = []
    counts: list[int] = []
    rows: list[tuple[list[int], int, int, int]] = []  # ids, prompt length, answer start, answer length
    for start in range(0, len(chunks), asking.chunks):
        batch = chunks[start : start + asking.chunks]
        found = _ask(asker, answerer, prepared, batch, device, asking, dtype, pieces, rng, generator, width)
        for chunk, members in zip(batch.tolist(), found, strict=True):
            if members:
                kept_chunks.append(chunk)
                counts.append(len(members))
                rows += members
        on_progress(min(start + asking.chunks, len(chunks)), len(chunks), len(rows))
    if rows:
        _write(out, prepared, np.array(kept_chunks), np.array(counts), rows, width, asking)
    return len(rows)


def _ask(
    asker: TennsModel,
    answerer: TennsModel,
    prepared: PreparedSet,
    chunks: NDArray[np.int64],
    device: torch.device,
    asking: Asking,
    dtype: torch.dtype | None,
    pieces: Pieces,
    rng: np.random.Generator,
    generator: torch.Generator,
    width: int,
) -> list[list[tuple[list[int], int, int, int]]]:
    """Rows kept for each of some chunks."""
    columns = prepared.columns
    context = columns["context"][chunks].astype(np.int64)
    spans = [_spans(prepared, int(chunk), asking.questions_per_chunk, rng) for chunk in chunks]
    owner = np.repeat(np.arange(len(chunks)), [len(s) for s in spans])
    flat = [span for s in spans for span in s]
    found: list[list[tuple[list[int], int, int, int]]] = [[] for _ in chunks]
    if not flat:
        return found
    answers = [context[o, first : first + size].tolist() for o, (first, size) in zip(owner, flat, strict=True)]
    texts = [pieces.decode(ids) for ids in answers]
    prompts = [[BOUNDARY_ID, *ids] for ids in pieces.encode([ASKING.format(answer=text) for text in texts])]
    context_ids = torch.from_numpy(context).to(device)
    context_len = torch.from_numpy(columns["context_len"][chunks].astype(np.int64)).to(device)
    with torch.no_grad():
        states = asker(context_ids, lengths=context_len, dtype=dtype).state
        owners = torch.from_numpy(owner).to(device)
        tokens, lengths = _padded(prompts, max(map(len, prompts)), device)
        sampled = sample_segments(asker, states[:, owners], tokens, lengths, asking, generator, dtype)
    questions = [pieces.decode([t for t in row if t != EOS_ID]).strip() for row in sampled.tolist()]
    encoded = pieces.encode([PROMPT.format(question=question) for question in questions])
    candidates: list[tuple[int, list[int], int, int, int]] = []
    seen: set[tuple[int, str]] = set()
    for o, question, text, ids, answer, (first, size) in zip(
        owner.tolist(), questions, texts, encoded, answers, flat, strict=True
    ):
        row = [BOUNDARY_ID, *ids, *answer, EOS_ID]
        if is_question(question, text) and len(row) <= width and (o, question) not in seen:
            seen.add((o, question))
            candidates.append((o, row, 1 + len(ids), first, size))
    if not candidates:
        return found
    questions_ids, row_length = _padded([c[1] for c in candidates], width, device)
    with torch.no_grad():
        judged = score(
            answerer,
            QuestionBatch(
                context=context_ids,
                context_length=context_len,
                questions=questions_ids,
                prompt_length=torch.tensor([c[2] for c in candidates], device=device),
                row_length=row_length,
                owner=torch.tensor([c[0] for c in candidates], device=device),
                answerable=torch.ones(len(candidates), dtype=torch.bool, device=device),
            ),
            LossWeights(context=0.0, question=0.0),
            dtype,
        )
    probability = torch.exp(-judged.row_losses).cpu().numpy()
    for (o, row, prompt, first, size), p in zip(candidates, probability, strict=True):
        if p >= asking.least_probability:
            found[o].append((row, prompt, first, size))
    return found


def _spans(prepared: PreparedSet, chunk: int, count: int, rng: np.random.Generator) -> list[tuple[int, int]]:
    """Up to ``count`` different answer spans of a chunk's made questions: first token and number of tokens."""
    rows = prepared.questions_of(chunk)
    here = slice(rows.start, rows.stop)
    starts, sizes = prepared.columns["answer_start"][here], prepared.columns["answer_len"][here]
    spans = sorted({(int(a), int(n)) for a, n in zip(starts, sizes, strict=True) if n > 0})
    if len(spans) <= count:
        return spans
    return [spans[i] for i in np.sort(rng.permutation(len(spans))[:count])]


def _padded(rows: list[list[int]], width: int, device: torch.device) -> tuple[Tensor, Tensor]:
    ids = np.zeros((len(rows), width), dtype=np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return torch.from_numpy(ids).to(device), lengths


def _write(
    out: Path,
    prepared: PreparedSet,
    chunks: NDArray[np.int64],
    counts: NDArray[np.int64],
    rows: list[tuple[list[int], int, int, int]],
    width: int,
    asking: Asking,
) -> None:
    questions = np.zeros((len(rows), width), dtype=np.uint16)
    for i, (ids, *_) in enumerate(rows):
        questions[i, : len(ids)] = ids
    columns = {
        "context": prepared.columns["context"][chunks],
        "context_len": prepared.columns["context_len"][chunks],
        "first_question": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "questions": questions,
        "prompt_len": np.array([r[1] for r in rows], dtype=np.int16),
        "row_len": np.array([len(r[0]) for r in rows], dtype=np.int16),
        "answer_start": np.array([r[2] for r in rows], dtype=np.int16),
        "answer_len": np.array([r[3] for r in rows], dtype=np.int16),
        "chunk": np.repeat(np.arange(len(chunks)), counts).astype(np.int32),
        "kind": np.full(len(rows), int(Kind.WH), dtype=np.uint8),
    }
    write_columns(out, columns, {"asked": dataclasses.asdict(asking), "of": prepared.folder.name})
