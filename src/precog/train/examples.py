"""Example files to fine-tune on, as one prepared set with a part held out.

Two forms: SQuAD v1.1 (the official JSON, or JSON lines), where a paragraph is a chunk with its questions, and
conversations (see :mod:`precog.train.conversation`). What is held out is drawn by title where there are enough titles,
else by paragraph or conversation, and never trained on. What the files hold several times is taken once, so that
nothing is on both sides.
"""

import json
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from precog.errors import InputError, TrainingError
from precog.questions.passage import Kind, Passage
from precog.train.conversation import Said, conversation_columns, most_prompt_tokens, read_roles
from precog.train.data.documents import form
from precog.train.data.folder import kind_of
from precog.train.data.rows import COLUMNS, CONTEXT_TOKENS, Columns, PreparedSet, write_columns
from precog.train.data.squad import Paragraph, plain, read_squad, squad_passages
from precog.train.data.tokens import MAX_ANSWER_TOKENS, Pieces, tokenise

SET_NAME = "examples"
SQUAD_ROW_TOKENS, CHAT_ROW_TOKENS = 96, 256
MIN_TITLES = 10
_FORMS = "SQuAD (.json, .jsonl) or conversations (.jsonl)"


@dataclass(frozen=True)
class Examples:
    """Prepared examples.

    Attributes:
        train, held_out: the two parts, memory-mapped.
        files: name, size, checksum and form of every file.
        num_left_out: questions and replies that are not in them.
        num_too_long: those of them that no row can hold; to the others the text has no answer.
        row_tokens: a row's most tokens.
        only_chat: whether all of them are conversations, whose answers need not stand in their chunk.
    """

    train: PreparedSet
    held_out: PreparedSet
    files: list[dict[str, object]]
    num_left_out: int
    num_too_long: int
    row_tokens: int
    only_chat: bool

    @property
    def num_questions(self) -> int:
        """Questions of both parts."""
        return self.train.num_questions + self.held_out.num_questions

    @property
    def left_out(self) -> str:
        """A line about what was left out, and why."""
        why = _reasons(self.num_too_long, self.num_left_out - self.num_too_long, self.row_tokens, self.files)
        total = self.num_questions + self.num_left_out
        return f"{self.num_left_out:,} of {total:,} questions were left out: {why}"


def only_conversations(paths: Sequence[Path]) -> bool:
    """Whether all files hold conversations.

    Raises:
        InputError: a file cannot be read, or holds something else than examples.
    """
    return all(_form(path) == "chat" for path in paths)


def prepare_examples(paths: Sequence[Path], folder: Path, *, share: float = 0.1, seed: int = 0) -> Examples:
    """Prepare files below a folder, or open what was prepared there from the same files.

    Args:
        paths: the files.
        folder: gets ``train/examples`` and ``val/examples``.
        share: of the paragraphs and conversations that are held out; at least one is, whatever the share.
        seed: of the draw.

    Raises:
        InputError: a file cannot be read or is of another form.
        TrainingError: there is too little to train on and hold out.
    """
    if not 0 < share < 1:
        raise TrainingError("--held-out is out of range", given=share, expected="0 < share < 1")
    files = described(paths)
    row_tokens = CHAT_ROW_TOKENS if any(file["form"] == "chat" for file in files) else SQUAD_ROW_TOKENS
    notes: dict[str, object] = {"files": files, "share": share, "seed": seed, "row_tokens": row_tokens}
    parts = [folder / split / SET_NAME for split in ("train", "val")]
    train, held_out = (_opened(part, notes) for part in parts)
    if train is None or held_out is None:
        _prepare(paths, files, parts, notes, share, seed, row_tokens)
        train, held_out = (PreparedSet(part, verify=True) for part in parts)
    left_out, too_long = train.notes["left_out"], train.notes["too_long"]
    assert isinstance(left_out, int)
    assert isinstance(too_long, int)
    only_chat = all(file["form"] == "chat" for file in files)
    return Examples(train, held_out, files, left_out, too_long, row_tokens, only_chat)


def _form(path: Path) -> str:
    kind = kind_of(path) if form(path) in (".json", ".jsonl") else "text"
    if kind == "text":
        raise InputError("this file holds no examples", given=path, expected=_FORMS)
    return kind


def described(paths: Sequence[Path]) -> list[dict[str, object]]:
    """Name, size, checksum and form of files of examples.

    Raises:
        InputError: a file cannot be read, or holds something else than examples.
    """
    files: list[dict[str, object]] = []
    for path in paths:
        kind, raw = _form(path), path.read_bytes()
        files.append({"name": path.name, "bytes": len(raw), "sha256": sha256(raw).hexdigest(), "form": kind})
    return files


def _opened(part: Path, notes: dict[str, object]) -> PreparedSet | None:
    """A part that was prepared with these notes, every byte of it; None where there is none."""
    if not (part / "meta.json").is_file():
        return None
    try:
        rows = PreparedSet(part, verify=True)
    except TrainingError:
        return None
    return rows if {key: rows.notes.get(key) for key in notes} == notes else None


def _prepare(
    paths: Sequence[Path],
    files: Sequence[dict[str, object]],
    parts: Sequence[Path],
    notes: dict[str, object],
    share: float,
    seed: int,
    row_tokens: int,
) -> None:
    pieces = Pieces()
    columns: list[list[Columns]] = [[], []]
    too_long = unplaced = 0
    told: set[tuple[Said, ...]] = set()  # what stands in the files several times is taken once
    paragraphs = _paragraphs([path for path, file in zip(paths, files, strict=True) if file["form"] != "chat"])
    for path, file in zip(paths, files, strict=True):
        rng = random.Random(f"{seed}/{path.name}".encode("utf-8", "surrogateescape"))  # a name may be any bytes
        if file["form"] == "chat":
            talks = [talk for talk in dict.fromkeys(map(tuple, read_roles(path))) if talk not in told]
            told.update(talks)
            held = _drawn([str(i) for i in range(len(talks))], share, rng)
            for split in range(2):
                chosen = [talk for i, talk in enumerate(talks) if (str(i) in held) == bool(split)]
                made, num_dropped = conversation_columns(chosen, pieces, CONTEXT_TOKENS, row_tokens)
                columns[split].append(made)
                too_long += num_dropped
        else:
            mine = paragraphs.pop(path, [])
            by_title = len({p.title for p in mine}) >= MIN_TITLES
            held = _drawn([p.title if by_title else p.text for p in mine], share, rng)
            for split in range(2):
                passages: list[Passage] = []
                for paragraph in mine:
                    if ((paragraph.title if by_title else paragraph.text) in held) == bool(split):
                        asked = squad_passages(paragraph)
                        unplaced += len(paragraph.asked) - sum(len(passage.asks) for passage in asked)
                        passages += asked
                made, _, dropped = tokenise(passages, pieces, CONTEXT_TOKENS, row_tokens)
                columns[split].append(made)
                too_long += dropped.too_long
                unplaced += dropped.unplaced
    joined = [_joined(group) for group in columns]
    joined[1] = _without(joined[1], joined[0])
    if not all(len(part["row_len"]) for part in joined):
        why = _reasons(too_long, unplaced, row_tokens, files)
        given = f"{sum(len(part['row_len']) for part in joined)} questions that can be used, {why or 'no others'}"
        raise TrainingError(
            "there are too few examples to train on some and hold out others",
            given=f"{', '.join(path.name for path in paths)}: {given}",
            expected="questions about two paragraphs, or two conversations, at least",
        )
    for name, width in (("context", "context_len"), ("questions", "row_len")):
        longest = max(int(part[width].max()) for part in joined)
        for part in joined:
            part[name] = part[name][:, : math.ceil(longest / 8) * 8]
    counts = {"left_out": too_long + unplaced, "too_long": too_long}
    for part, folder in zip(joined, parts, strict=True):
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_columns(folder, part, json.loads(json.dumps({**notes, **counts})))


def _reasons(too_long: int, unplaced: int, row_tokens: int, files: Sequence[dict[str, object]]) -> str:
    """How many questions have no row, and why."""
    forms = {file["form"] for file in files}
    rules = []
    if "squad" in forms:
        most = f"{row_tokens} tokens long with its answer, the answer alone {MAX_ANSWER_TOKENS}"
        rules.append(f"a question may be {most}")
    if "chat" in forms:
        rules.append(f"what a user says may be {most_prompt_tokens(row_tokens)} tokens long")
    told = [f"{too_long:,} too long ({', '.join(rules)}; no option changes that)"] if too_long else []
    return ", ".join([*told, f"{unplaced:,} whose answer is not in the text"] if unplaced else told)


def _paragraphs(paths: Sequence[Path]) -> dict[Path, list[Paragraph]]:
    """The paragraphs of some files, each text once, where it stands first, with all questions asked of it anywhere."""
    places: dict[str, tuple[Path, int]] = {}
    found: dict[Path, list[Paragraph]] = {}
    for path in dict.fromkeys(paths):
        mine = found.setdefault(path, [])
        for paragraph in read_squad(path):
            first, at = places.setdefault(plain(paragraph.text), (path, len(mine)))
            if (first, at) == (path, len(mine)):
                mine.append(paragraph)
                continue
            kept = found[first][at]
            questions = {(plain(question), answer) for question, answer, _ in kept.asked}
            more = tuple(a for a in paragraph.asked if (plain(a[0]), a[1]) not in questions)
            found[first][at] = Paragraph(kept.title, kept.text, (*kept.asked, *more))
    return found


def _without(part: Columns, other: Columns) -> Columns:
    """The chunks of a part that the other does not hold: texts may begin alike, and conversations open alike.

    A chunk with an answer in it is its tokens; one without, before a free answer, is told by what is asked as well.
    """

    def keys(columns: Columns) -> list[bytes]:
        first, start = columns["first_question"], columns["answer_start"]
        rows = [context.tobytes() for context in columns["context"]]
        is_free = columns["kind"] == Kind.DIALOGUE
        return [
            row + columns["questions"][first[i]].tobytes() if is_free[first[i]] and start[first[i]] < 0 else row
            for i, row in enumerate(rows)
        ]

    known = set(keys(other))
    kept = np.array([key not in known for key in keys(part)], dtype=np.bool_)
    rows = kept[part["chunk"]]
    counts = np.diff(part["first_question"])[kept]
    return {
        **{name: part[name][kept if name in ("context", "context_len") else rows] for name in COLUMNS
           if name not in ("first_question", "chunk")},
        "first_question": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        "chunk": np.repeat(np.arange(len(counts)), counts).astype(np.int32),
    }  # fmt: skip


def _drawn(keys: Sequence[str], share: float, rng: random.Random) -> frozenset[str]:
    distinct = sorted(set(keys))
    count = min(len(distinct) - 1, max(1, round(share * len(distinct))))
    return frozenset(rng.sample(distinct, max(0, count)))


def _joined(parts: Sequence[Columns]) -> Columns:
    """Columns one after the other; chunks and questions are numbered on."""
    joined: Columns = {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}
    num_chunks = np.cumsum([0, *(len(part["context_len"]) for part in parts)])
    num_rows = np.cumsum([0, *(len(part["row_len"]) for part in parts)])
    joined["chunk"] = np.concatenate([p["chunk"] + n for p, n in zip(parts, num_chunks, strict=False)])
    first = [p["first_question"][:-1] + n for p, n in zip(parts, num_rows, strict=False)]
    joined["first_question"] = np.concatenate([*first, num_rows[-1:]])
    return joined
