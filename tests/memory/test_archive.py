import gzip
import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_memory import chunks, open_memory, said

from precog.backbones.tenns.backbone import TennsBackbone
from precog.errors import InputError
from precog.memory.archive import export, read_archive
from precog.memory.deposit import deposit
from precog.memory.forget import forget
from precog.memory.opened import OpenMemory
from precog.memory.restore import import_archive
from precog.memory.supersede import supersede

TEXTS = ["I met Clara yesterday at the pier.", "Clara lives in Lisbon.", "Clara lives in Porto now."]


def rows(memory: OpenMemory) -> list[tuple[object, ...]]:
    return [
        (
            d.info.uid,
            d.info.text,
            d.info.header,
            d.info.key_text,
            d.info.time,
            d.info.speaker,
            d.info.group,
            d.info.importance,
            d.info.created_at,
            d.superseded_by,
        )
        for d in memory.store.deposits()
    ]


def changed(line: str, **values: object) -> str:
    return json.dumps({**json.loads(line), **values})


def exported(folder: Path, path: Path, backbone: TennsBackbone) -> list[tuple[object, ...]]:
    with open_memory(folder, backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS, " ".join(TEXTS * 20))))
        deposit(memory, chunks(memory, said("The boat is red.", speaker="Ben")), importance=2.5)
        with memory.store.batch() as batch:
            batch.supersede(2, 3, at=5.0)
        assert export(memory.store, path)[0] == len(rows(memory))
        return rows(memory)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_there_and_back(tmp_path, backbone: TennsBackbone, name: str):
    before = exported(tmp_path / "a", tmp_path / name, backbone)
    assert len(before) > 4
    assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    with open_memory(tmp_path / "b", backbone) as memory:
        done = import_archive(memory, read_archive(tmp_path / name))
        assert done.num_duplicates == 0
        assert rows(memory) == before
        assert import_archive(memory, read_archive(tmp_path / name)).num_duplicates == len(before)
        assert rows(memory) == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines[:-1], "cut short"),
        (lambda lines: [*lines[:-1], lines[-1][:-5]], "line 3"),
        (lambda lines: ['{"format": "other"}', *lines[1:]], "no archive"),
        (lambda lines: [lines[0].replace('"version": 1', '"version": 2'), *lines[1:]], "version"),
        (lambda lines: [lines[0], lines[1], lines[1]], "contradicts itself"),
        (lambda lines: [lines[0], lines[1], lines[2].replace('"part": 0', '"part": "x"')], "line 3: part"),
        (lambda lines: [], "the archive is empty"),
        (
            lambda lines: [lines[0].replace('"version": 1', '"version": true'), *lines[1:]],
            "another version; given: true",
        ),
        (lambda lines: [lines[0].replace('"version": 1', '"version": 1.0'), *lines[1:]], "another version; given: 1.0"),
        (lambda lines: [lines[0].replace('"deposits": 2', '"deposits": false'), lines[1]], "how many .*; given: false"),
        (lambda lines: [lines[0].replace('"deposits": 2', '"deposits": 1'), *lines[1:]], "2 deposits; expected: 1,"),
        (
            lambda lines: [*lines[:2], lines[2].replace('"part": 0', '"part": 0, "part": 0')],
            "twice; given: .*line 3: part",
        ),
        (lambda lines: [*lines[:2], changed(lines[2], created_at=1e308)], "line 3: created_at"),
        (lambda lines: [*lines[:2], changed(lines[2], created_at=-1e308)], "line 3: created_at"),
        (lambda lines: [*lines[:2], changed(lines[2], num_parts=2**63 - 1)], "line 3: num_parts"),
        (lambda lines: [*lines[:2], changed(lines[2], superseded_at=1.0)], "line 3: superseded_by without"),
        (lambda lines: [*lines[:2], changed(lines[2], superseded_by=1)], "line 3: superseded_by without"),
        (lambda lines: [*lines[:2], changed(lines[2], text="?!")], "line 3: a turn has no words"),
        (lambda lines: [*lines[:2], "[" * 200_000], "line 3: JSON nested too deeply"),
        (lambda lines: ["[" * 200_000, *lines[1:]], "line 1: JSON nested too deeply"),
        (lambda lines: [*lines[:2], lines[2].replace('"header": "', '"header": "\\ud800')], "line 3: header"),
        (lambda lines: [*lines[:2], lines[2].replace('"header": "', '"header": "\\u0000')], "line 3: header"),
        (lambda lines: [*lines[:2], lines[2].replace('"text": "', '"text": "\\udfff')], "line 3: text"),
        (lambda lines: [*lines[:2], changed(lines[2], importance=10**400)], "line 3: importance"),
        (lambda lines: [*lines[:2], changed(lines[2], created_at=-(10**400))], "line 3: created_at"),
        (lambda lines: [*lines[:2], changed(lines[2], superseded_at=10**400)], "line 3: superseded_at"),
        (lambda lines: [*lines[:2], changed(lines[2], created_at=float("nan"))], "line 3: created_at"),
        (lambda lines: [*lines[:2], lines[2].replace('"id": 2', f'"id": {"9" * 5000}')], "line 3: malformed JSON"),
        (lambda lines: [*lines[:2], changed(lines[2], num_parts=1 << 63)], "line 3: num_parts"),
        (lambda lines: [*lines[:2], lines[2].replace('"part": 0', '"part": 1.5')], "line 3: part"),
        (lambda lines: [*lines[:2], lines[2].replace('"part": 0', '"part": -3')], "line 3: part"),
        (lambda lines: [*lines[:2], lines[2].replace('"part": 0', '"part": 7')], "line 3: part"),
        (lambda lines: [*lines[:2], lines[2].replace('"part": 0', '"part": true')], "line 3: part"),
        (lambda lines: [*lines[:2], lines[2].replace('"id": 2', '"id": NaN')], "line 3: id"),
        (
            lambda lines: [*lines[:2], lines[2].replace('"importance": 0.0', '"importance": Infinity')],
            "line 3: importance",
        ),
        (lambda lines: [*lines[:2], lines[2].replace('"importance": 0.0', '"importance": null')], "line 3: importance"),
        (lambda lines: [*lines[:2], lines[2].replace('"time": "', '"time": "x')], "line 3: the time stamp"),
        (lambda lines: [*lines[:2], lines[2].replace('"superseded_by": null', '"superseded_by": 2')], "superseded_by"),
        (lambda lines: [*lines[:2], changed(lines[2], superseded_by=9, superseded_at=1.0)], "contradicts"),
        (lambda lines: [*lines[:2], lines[2].replace('"id": 2', '"id": 2, "more": 1')], "line 3: more"),
    ],
)
def test_a_foreign_or_damaged_archive_is_one_clear_line(tmp_path, backbone: TennsBackbone, change, message: str):
    with open_memory(tmp_path / "a", backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS[:2])))
        export(memory.store, tmp_path / "a.jsonl")
    lines = (tmp_path / "a.jsonl").read_text().splitlines()
    (tmp_path / "b.jsonl").write_text("".join(line + "\n" for line in change(lines)))
    with pytest.raises(InputError, match=message):
        read_archive(tmp_path / "b.jsonl")


def test_an_archive_that_ends_too_early_is_cut_short_and_one_that_lacks_a_line_end_is_whole(
    tmp_path, backbone: TennsBackbone
):
    with open_memory(tmp_path / "a", backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        export(memory.store, tmp_path / "a.jsonl")
    data = (tmp_path / "a.jsonl").read_bytes()
    whole = read_archive(tmp_path / "a.jsonl")
    for same in (data[:-1], b"\xef\xbb\xbf" + data):
        (tmp_path / "b.jsonl").write_bytes(same)
        assert read_archive(tmp_path / "b.jsonl") == whole
    for cut in (data[:-2], data[:-20], data[: data.rindex(b"\n", 0, -1)], data[: data.rindex(b"\n", 0, -1) + 1]):
        (tmp_path / "b.jsonl").write_bytes(cut)
        with pytest.raises(InputError, match="the archive is cut short"):
            read_archive(tmp_path / "b.jsonl")


def test_bytes_that_are_no_text(tmp_path):
    packed = gzip.compress(random.Random(0).randbytes(500).hex().encode(), mtime=0)
    for wrong in (packed[:-4], packed[:40], packed[:200] + bytes([packed[200] ^ 255]) + packed[201:]):
        (tmp_path / "a.gz").write_bytes(wrong)
        with pytest.raises(InputError, match="the compressed archive is damaged"):
            read_archive(tmp_path / "a.gz")
    (tmp_path / "a.jsonl").write_bytes(b'{"format": "\xff"}')
    with pytest.raises(InputError, match="not UTF-8"):
        read_archive(tmp_path / "a.jsonl")
    with pytest.raises(InputError, match="the archive cannot be read"):
        read_archive(tmp_path)


@pytest.mark.parametrize("circle", [{1: 2, 2: 3, 3: 1}, {2: 3, 3: 2}, {1: 2, 2: 3, 3: 2}])
def test_what_would_be_superseded_by_itself_is_refused(tmp_path, backbone: TennsBackbone, circle: dict[int, int]):
    with open_memory(tmp_path / "a", backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        export(memory.store, tmp_path / "a.jsonl")
    head, *lines = (tmp_path / "a.jsonl").read_text().splitlines()
    rows = [
        changed(line, superseded_by=circle.get(n), superseded_at=1.0 if n in circle else None)
        for n, line in enumerate(lines, 1)
    ]
    (tmp_path / "b.jsonl").write_text("\n".join([head, *rows, ""]))
    with pytest.raises(InputError, match=r"contradicts itself.*, line [34]: "):
        read_archive(tmp_path / "b.jsonl")


def test_an_archive_that_contradicts_what_is_remembered_stores_nothing(tmp_path, backbone: TennsBackbone):
    with open_memory(tmp_path / "a", backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        with memory.store.batch() as batch:
            batch.supersede(1, 2, at=5.0)
        export(memory.store, tmp_path / "a.jsonl")
    with open_memory(tmp_path / "b", backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS[:2])))
        with memory.store.batch() as batch:
            batch.supersede(2, 1, at=5.0)
        before = memory.store.checksum()
        with pytest.raises(InputError, match="line 2"):
            import_archive(memory, read_archive(tmp_path / "a.jsonl"))
        assert memory.store.checksum() == before


@pytest.mark.parametrize("key", ["header", "text"])
def test_what_no_record_has_room_for_is_refused_before_anything_is_stored(tmp_path, backbone: TennsBackbone, key: str):
    with open_memory(tmp_path / "a", backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        export(memory.store, tmp_path / "a.jsonl")
    *lines, last = (tmp_path / "a.jsonl").read_text().splitlines()
    (tmp_path / "b.jsonl").write_text("\n".join([*lines, changed(last, **{key: "words " * 300 + "end"}), ""]))
    with open_memory(tmp_path / "b", backbone) as memory:
        before = memory.store.checksum()
        with pytest.raises(InputError, match=r"too long; given: line 4, \d+ tokens"):
            import_archive(memory, read_archive(tmp_path / "b.jsonl"))
        assert memory.store.checksum() == before


def test_a_header_of_an_older_release_stays_as_it_was_read(tmp_path, backbone: TennsBackbone):
    with open_memory(tmp_path / "a", backbone) as memory:
        (chunk,) = chunks(memory, said(TEXTS[0]))
        old = "[2026-05-04T09:00:00+00:00 | Ana] "
        assert chunk.header == f"{old}On 4 May 2026, Ana said (yesterday: 3 May 2026): "
        (number,) = deposit(memory, [replace(chunk, header=old)]).ids
        assert deposit(memory, [chunk]).ids == (number,)
        export(memory.store, tmp_path / "a.jsonl")
        before = rows(memory)
        assert [entry.info.header for entry in memory.store.deposits()] == [old]
        record = memory.store.read_state(number)
        assert memory.backbone.tokenizer.decode(record.token_ids.tolist()) == old + TEXTS[0]
    with open_memory(tmp_path / "b", backbone) as memory:
        import_archive(memory, read_archive(tmp_path / "a.jsonl"))
        assert rows(memory) == before
        assert deposit(memory, [chunk]).num_duplicates == 1


def test_an_archive_does_not_change_what_superseded_what_here(tmp_path, backbone: TennsBackbone):
    with open_memory(tmp_path / "a", backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        with memory.store.batch() as batch:
            batch.supersede(1, 3, at=5.0)
        export(memory.store, tmp_path / "a.jsonl")
    with open_memory(tmp_path / "b", backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        supersede(memory.store, 1, 2)
        supersede(memory.store, 2, 3)
        import_archive(memory, read_archive(tmp_path / "a.jsonl"))
        assert [entry.superseded_by for entry in memory.store.deposits()][:3] == [2, 3, None]


def test_a_chain_is_made_link_by_link(tmp_path, backbone: TennsBackbone):
    with open_memory(tmp_path / "a", backbone) as memory:
        deposit(memory, chunks(memory, said(*TEXTS)))
        supersede(memory.store, 1, 2)
        supersede(memory.store, 2, 3)
        before = memory.store.checksum()
        for old, new, message in (
            (1, 3, r"deposit 1 is superseded by 2 already; given: 1 ▸ 2 ▸ 3 .*; 3 is the one that holds"),
            (2, 3, r"deposit 2 is superseded by 3 already; given: 2 ▸ 3 "),
            (3, 1, r"cannot hold instead of what has superseded it; given: 1 ▸ 2 ▸ 3 "),
            (3, 3, "instead of itself"),
            (1, 99, "no such deposit; given: 99"),
        ):
            with pytest.raises(InputError, match=message):
                supersede(memory.store, old, new)
        assert memory.store.checksum() == before
        report = forget(memory, [entry for entry in memory.store.deposits() if entry.id == 3], proof=False)
        assert report.restored == (2,)
