"""One slice of chunks: answers chosen in them, a question sampled for each, most of them refused.

A question stays when a model that answers finds its answer (round-trip consistency, Alberti et al. 2019,
arXiv 1906.05416): under grounded decoding the answer is what it would say, or probable enough. The answers are spans
that the rules of data preparation have found.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from precog.backbones.tenns.model import TennsModel
from precog.train.asking.sample import read_states, sample_segments
from precog.train.asking.turned import ASKING
from precog.train.data.rows import PreparedSet
from precog.train.data.tokens import BOUNDARY_ID, EOS_ID, PROMPT, Pieces
from precog.train.objective import LossWeights, score
from precog.train.questions import QuestionBatch

REFUSALS = ("too_long", "no_question", "gives_answer", "repeated", "duplicate", "improbable")
"""Why a question does not stay: no end within its tokens or no room in a row; no single question; the answer stands in
it; it says a word twice in a row; the chunk has been asked the same; the judge does not find the answer."""

_QUESTION = re.compile(r"[A-Z0-9\"'].{8,200}\?")
_TWICE = re.compile(r"\b(\w+(?:\W+\w+){0,2})\W+\1\b", re.IGNORECASE)


@dataclass(frozen=True)
class Asking:
    """How questions are written.

    Attributes:
        slice_chunks: chunks that are asked about at once; what is written depends on it.
        questions_per_chunk: answers asked for in each.
        max_tokens: of a question.
        temperature: of sampling.
        least_probability: of the answer, given chunk and question, for a question to stay whose answer is not the
            judge's own.
        seed: of answers and sampling.
    """

    slice_chunks: int = 1024
    questions_per_chunk: int = 4
    max_tokens: int = 28
    temperature: float = 0.6
    least_probability: float = 0.12
    seed: int = 0


@dataclass(frozen=True)
class Asked:
    """Questions that stay, K of them, by rising number of their chunk.

    Attributes:
        chunk: int64 [K] of the prepared set that was asked about.
        questions, prompt_len, row_len, answer_start, answer_len: [K, W], [K] as in prepared rows.
        probability: float32 [K] of the answer, by the judge.
        refused: how many were not kept, by reason.
    """

    chunk: NDArray[np.int64]
    questions: NDArray[np.uint16]
    prompt_len: NDArray[np.int16]
    row_len: NDArray[np.int16]
    answer_start: NDArray[np.int16]
    answer_len: NDArray[np.int16]
    probability: NDArray[np.float32]
    refused: dict[str, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.chunk)


def refusal(question: str, answer: str) -> str | None:
    """Why a sampled text is no good question, or None."""
    if not _QUESTION.fullmatch(question) or question.count("?") != 1:
        return "no_question"
    if _holds(question.lower(), answer.lower()):
        return "gives_answer"
    return "repeated" if _TWICE.search(question) else None


def _holds(text: str, words: str) -> bool:
    """Whether words stand in a text, and not within others."""
    at = text.find(words)
    while at >= 0:
        end = at + len(words)
        if not (
            (text[:at][-1:].isalnum() and words[:1].isalnum()) or (text[end:][:1].isalnum() and words[-1:].isalnum())
        ):
            return True
        at = text.find(words, at + 1)
    return False


def ask_slice(
    asker: TennsModel,
    judge: TennsModel,
    prepared: PreparedSet,
    chunks: NDArray[np.int64],
    pieces: Pieces,
    device: torch.device,
    asking: Asking,
    seed: tuple[int, ...],
    dtype: torch.dtype | None = None,
) -> Asked:
    """Ask about some chunks of a prepared set.

    Args:
        asker: trained on `ReversedBatches`.
        judge: a model that answers.
        prepared: whose chunks and answer spans are used.
        chunks: numbers of the chunks, rising.
        pieces: the vocabulary.
        device: of both models.
        asking: how.
        seed: of this slice.
        dtype: compute dtype.
    """
    rng = np.random.default_rng(seed)
    owner, first, size = choose_spans(prepared, chunks, asking.questions_per_chunk, rng)
    width = prepared.widths[1]
    refused = dict.fromkeys(REFUSALS, 0)
    found = np.zeros((len(owner), width), dtype=np.int64)
    prompt, end = np.zeros(len(owner), dtype=np.int64), np.zeros(len(owner), dtype=np.int64)
    probability = np.zeros(len(owner), dtype=np.float32)
    stays = np.zeros(len(owner), dtype=np.bool_)
    if len(owner):
        lengths = prepared.columns["context_len"][chunks].astype(np.int64)
        ids = prepared.columns["context"][chunks].astype(np.int64)
        context = torch.from_numpy(ids).to(device)
        answers = [ids[o, f : f + n].tolist() for o, f, n in zip(owner, first, size, strict=True)]
        texts = pieces.decode_all(answers)
        states = read_states(asker, context, lengths, dtype)
        sampled = _sampled(asker, states, owner, texts, pieces, device, asking, int(rng.integers(2**62)), dtype)
        questions = pieces.decode_all([[t for t in row if t != EOS_ID] for row in sampled])
        encoded = pieces.encode([PROMPT.format(question=question.strip()) for question in questions])
        seen: set[tuple[int, str]] = set()
        for k, (o, question, text, row) in enumerate(zip(owner.tolist(), questions, texts, encoded, strict=True)):
            question = question.strip()
            end[k], prompt[k] = len(row) + size[k] + 2, len(row) + 1
            why = "too_long" if sampled[k][-1] != EOS_ID or end[k] > width else refusal(question, text)
            why = why or ("duplicate" if (o, question.lower()) in seen else None)
            if why:
                refused[why] += 1
                continue
            seen.add((o, question.lower()))
            found[k, : end[k]] = [BOUNDARY_ID, *row, *answers[k], EOS_ID]
            stays[k] = True
        candidates = np.flatnonzero(stays)
        if len(candidates):
            likely, exact = _judged(
                judge,
                context,
                lengths,
                found[candidates],
                prompt[candidates],
                end[candidates],
                owner[candidates],
                dtype,
            )
            probability[candidates] = likely
            stays[candidates] = exact | (likely >= asking.least_probability)
            refused["improbable"] = len(candidates) - int(stays.sum())
    return Asked(
        chunks[owner[stays]],
        found[stays].astype(np.uint16),
        prompt[stays].astype(np.int16),
        end[stays].astype(np.int16),
        first[stays].astype(np.int16),
        size[stays].astype(np.int16),
        probability[stays],
        refused,
    )


def choose_spans(
    prepared: PreparedSet, chunks: NDArray[np.int64], count: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Up to ``count`` different answer spans of each chunk: place of the chunk in ``chunks``, first token, tokens."""
    offsets = prepared.columns["first_question"]
    begin, available = offsets[chunks], offsets[chunks + 1] - offsets[chunks]
    owner = np.repeat(np.arange(len(chunks)), available)
    row = np.repeat(begin - np.cumsum(available) + available, available) + np.arange(len(owner))
    start, size = prepared.columns["answer_start"][row], prepared.columns["answer_len"][row]
    spans: NDArray[np.int64] = np.stack((owner, start, size), axis=1).astype(np.int64)
    spans = np.unique(spans[spans[:, 2] > 0], axis=0)
    shuffled = spans[np.lexsort((rng.random(len(spans)), spans[:, 0]))]
    chosen = shuffled[_number_within(shuffled[:, 0]) < count]
    chosen = chosen[np.lexsort((chosen[:, 1], chosen[:, 0]))]
    return chosen[:, 0], chosen[:, 1], chosen[:, 2]


def _number_within(groups: NDArray[np.int64]) -> NDArray[np.int64]:
    """The number of each item within its group; groups are sorted."""
    return np.arange(len(groups)) - np.searchsorted(groups, groups)


def _sampled(
    asker: TennsModel,
    states: Tensor,
    owner: NDArray[np.int64],
    answers: Sequence[str],
    pieces: Pieces,
    device: torch.device,
    asking: Asking,
    seed: int,
    dtype: torch.dtype | None,
) -> list[list[int]]:
    """Sampled ids of a question for every answer."""
    prompts = [[BOUNDARY_ID, *ids] for ids in pieces.encode([ASKING.format(answer=text) for text in answers])]
    lengths = np.array([len(ids) for ids in prompts])
    tokens = np.zeros((len(prompts), int(lengths.max())), dtype=np.int64)
    for k, ids in enumerate(prompts):
        tokens[k, : len(ids)] = ids
    place = torch.from_numpy(owner).to(device)
    sampled = sample_segments(
        asker,
        states[:, place],
        torch.from_numpy(tokens).to(device),
        torch.from_numpy(lengths).to(device),
        asking.max_tokens,
        asking.temperature,
        torch.Generator(device).manual_seed(seed),
        dtype,
    )
    rows: list[list[int]] = sampled.tolist()
    return rows


@torch.no_grad()
def _judged(
    judge: TennsModel,
    context: Tensor,
    lengths: NDArray[np.int64],
    rows: NDArray[np.int64],
    prompt: NDArray[np.int64],
    end: NDArray[np.int64],
    owner: NDArray[np.int64],
    dtype: torch.dtype | None,
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Of every row: the answer's probability under grounded decoding, and whether it is what greedy decoding says."""
    device = context.device

    def put(values: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(device)

    by_length, by_end = np.argsort(lengths, kind="stable"), np.argsort(end, kind="stable")
    place = np.argsort(by_length)
    sizes, ends = lengths[by_length], end[by_end]
    found = score(
        judge,
        QuestionBatch(
            context=context[put(by_length), : int(sizes[-1])],
            context_length=put(sizes),
            questions=put(rows[by_end, : int(ends[-1])]),
            prompt_length=put(prompt[by_end]),
            row_length=put(ends),
            owner=put(place[owner[by_end]]),
            answerable=torch.ones(len(rows), dtype=torch.bool, device=device),
        ),
        LossWeights(context=0.0, question=0.0),
        dtype,
    )
    back = np.argsort(by_end)
    likely = torch.exp(-found.row_losses).float().cpu().numpy()[back]
    return likely, (found.row_misses == 0).cpu().numpy()[back]
