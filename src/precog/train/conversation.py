"""Conversations to fine-tune on: what was said before is the chunk, what the user says next the question.

Every reply is an example: the state that is left of the turns before it, the user's turn as a question, the reply as a
free answer. Each exchange opens a segment, as it will when it is stored and continued.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from precog.errors import InputError
from precog.questions.passage import Kind
from precog.train.data.chat import Conversation, read_conversations
from precog.train.data.rows import Columns
from precog.train.data.tokens import BOUNDARY_ID, EOS_ID, PROMPT, Pieces

USER, ASSISTANT, SYSTEM = "user", "assistant", "system"
_ROLES = {
    **dict.fromkeys(("user", "human", "customer", "client", "caller"), USER),
    **dict.fromkeys(("assistant", "gpt", "bot", "agent", "operator"), ASSISTANT),
    **dict.fromkeys(("system", "developer"), SYSTEM),
}


class Said(NamedTuple):
    """Something said, and by whom: ``user``, ``assistant`` or ``system``."""

    role: str
    text: str


def read_roles(path: Path) -> list[list[Said]]:
    """The conversations of a file with everybody's role.

    Where nobody is the assistant, the system is: dialogue systems reply. Of two people the first is the user.

    Raises:
        InputError: the file cannot be read, or it is unclear who replies to whom.
    """
    return [_roles(conversation, path) for conversation in read_conversations(path)]


def _roles(conversation: Conversation, path: Path) -> list[Said]:
    speakers = list(dict.fromkeys(turn.speaker.lower() for turn in conversation.turns))
    roles = {speaker: _ROLES.get(speaker) for speaker in speakers}
    if ASSISTANT not in roles.values():
        roles = {speaker: ASSISTANT if role == SYSTEM else role for speaker, role in roles.items()}
    people = [speaker for speaker in speakers if roles[speaker] is None]
    free = [role for role in (USER, ASSISTANT) if role not in roles.values()]
    if len(people) > len(free):
        raise InputError(
            "it is unclear who replies to whom",
            given=f"{path}: {conversation.name}: {', '.join(people)}",
            expected="a user and an assistant, or two people",
        )
    roles.update(zip(people, free, strict=False))
    said = [Said(str(roles[turn.speaker.lower()]), turn.text.replace("▁", "_").strip()) for turn in conversation.turns]
    return [turn for turn in said if turn.text]


def conversation_columns(
    conversations: Sequence[Sequence[Said]], pieces: Pieces, context_tokens: int, row_tokens: int
) -> tuple[Columns, int]:
    """Every reply to a user as a chunk with one question.

    What does not fit is cut: the oldest segments of the chunk, and the end of the reply, whose end mark is then
    missing so that nothing is learned of where it ends.

    Args:
        conversations: turns.
        pieces: the vocabulary.
        context_tokens: most tokens of a chunk.
        row_tokens: most tokens of a question and its reply.

    Returns:
        The columns (``answer_start`` is −1), and the number of replies left out because their question fills a row.
    """
    contexts: list[list[int]] = []
    rows: list[list[int]] = []
    prompts: list[int] = []
    dropped = 0
    for turns in conversations:
        for before, question, reply in _examples(turns):
            prompt = [BOUNDARY_ID, *pieces.encode([PROMPT.format(question=question)])[0]]
            if len(prompt) > most_prompt_tokens(row_tokens):
                dropped += 1
                continue
            contexts.append(_history(before, pieces, context_tokens))
            rows.append([*prompt, *pieces.encode([reply])[0], EOS_ID][:row_tokens])
            prompts.append(len(prompt))
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    prompt_len = np.array(prompts, dtype=np.int64)
    columns: Columns = {
        "context": padded(contexts, context_tokens),
        "context_len": np.array([len(row) for row in contexts], dtype=np.int16),
        "first_question": np.arange(len(rows) + 1, dtype=np.int64),
        "questions": padded(rows, row_tokens),
        "prompt_len": prompt_len.astype(np.int16),
        "row_len": lengths.astype(np.int16),
        "answer_start": np.full(len(rows), -1, dtype=np.int16),
        "answer_len": (lengths - prompt_len - 1).astype(np.int16),
        "chunk": np.arange(len(rows), dtype=np.int32),
        "kind": np.full(len(rows), Kind.DIALOGUE, dtype=np.uint8),
    }
    return columns, dropped


def most_prompt_tokens(row_tokens: int) -> int:
    """How much of a row a user's turn may take, so that there is room for a reply."""
    return row_tokens * 3 // 4


def _examples(turns: Sequence[Said]) -> Iterator[tuple[list[Said], str, str]]:
    """What was said before, the user's turn, the reply; several turns of one voice are one."""
    merged: list[Said] = []
    for turn in turns:
        if merged and merged[-1].role == turn.role:
            merged[-1] = Said(turn.role, f"{merged[-1].text}\n{turn.text}")
        else:
            merged.append(turn)
    for i in range(1, len(merged)):
        if merged[i].role == ASSISTANT and merged[i - 1].role == USER:
            yield merged[: i - 1], merged[i - 1].text, merged[i].text


def _history(turns: Sequence[Said], pieces: Pieces, most: int) -> list[int]:
    segments: list[list[int]] = []
    for turn in turns:
        answers = turn.role == ASSISTANT and bool(segments)
        text = PROMPT.format(question=turn.text) if turn.role == USER else turn.text
        ids = pieces.encode([text])[0]
        if answers:
            segments[-1] += ids
        else:
            segments.append([BOUNDARY_ID, *ids])
    while len(segments) > 1 and sum(map(len, segments)) > most:
        segments.pop(0)
    joined = [token for segment in segments for token in segment] or [BOUNDARY_ID]
    return joined if len(joined) <= most else [BOUNDARY_ID, *joined[1 - most :]]


def padded(rows: Sequence[Sequence[int]], width: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint16]]:
    """Rows of token ids as one array, zero-padded."""
    out = np.zeros((len(rows), width), dtype=np.uint16)
    for at, row in enumerate(rows):
        out[at, : len(row)] = row
    return out
