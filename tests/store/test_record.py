"""One record and one segment file: round trip, every flipped byte, what does not fit."""

import zlib
from pathlib import Path

import corpora
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from precog.errors import DamagedCorpusError, DamagedStateError, StateError
from precog.store import Location, RecordLayout, content_hash
from precog.store.record import pack, relocate, unpack
from precog.store.segment import SegmentReader, SegmentWriter, segment_path

PLACE = Location(3, 2)
FINGERPRINT = b"f" * 32
layouts = st.builds(
    RecordLayout,
    state_bytes=st.integers(0, 300),
    tau_bytes=st.integers(0, 20).map(lambda n: 4 * n),
    max_tokens=st.integers(1, 80),
    token_width=st.sampled_from([2, 4]),
    note=st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=3),
)


@st.composite
def records(draw):
    layout = draw(layouts)
    ids = draw(st.lists(st.integers(0, 65535), min_size=1, max_size=layout.max_tokens))
    with_suffixes = draw(st.booleans())
    parts = {
        "state": draw(st.binary(min_size=layout.state_bytes, max_size=layout.state_bytes)),
        "tau": np.arange(layout.tau_bytes // 4, dtype=np.float32) / 3,
        "token_ids": ids,
        "suffix_array": np.arange(len(ids))[::-1] if with_suffixes else None,
        "fingerprint": draw(st.binary(min_size=32, max_size=32)),
    }
    return layout, parts


@settings(deadline=None)
@given(records())
def test_a_record_round_trips(given_record):
    layout, parts = given_record
    data = bytes(pack(layout, PLACE, **parts))
    assert len(data) == layout.record_bytes
    assert len(data) % 4096 == 0
    record = unpack(layout, PLACE, data)
    assert record.state.tobytes() == parts["state"]
    np.testing.assert_array_equal(record.tau, parts["tau"])
    assert record.token_ids.tolist() == parts["token_ids"]
    assert record.num_tokens == len(parts["token_ids"])
    expected = [] if parts["suffix_array"] is None else parts["suffix_array"].tolist()
    assert record.suffix_array.tolist() == expected
    assert record.fingerprint == parts["fingerprint"]
    assert record.content_hash == content_hash(parts["fingerprint"], parts["token_ids"])
    assert not record.state.flags.writeable


@settings(deadline=None, max_examples=200)
@given(records(), st.data())
def test_a_flipped_bit_anywhere_is_refused(given_record, data):
    layout, parts = given_record
    damaged = pack(layout, PLACE, **parts)
    bit = data.draw(st.integers(0, 8 * len(damaged) - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DamagedStateError, match=r"segment 000003, record 2"):
        unpack(layout, PLACE, bytes(damaged))


def test_every_single_byte_of_one_record_is_guarded():
    data = pack(corpora.LAYOUT, PLACE, token_ids=corpora.tokens_of(1), fingerprint=FINGERPRINT, **corpora.parts_of(1))
    for position in range(len(data)):
        data[position] ^= 0xFF
        with pytest.raises(DamagedStateError):
            unpack(corpora.LAYOUT, PLACE, bytes(data))
        data[position] ^= 0xFF
    unpack(corpora.LAYOUT, PLACE, bytes(data))


def test_a_record_at_another_place_is_refused_and_relocate_moves_it():
    parts = {"token_ids": corpora.tokens_of(1), "fingerprint": FINGERPRINT, **corpora.parts_of(1)}
    data = bytes(pack(corpora.LAYOUT, PLACE, **parts))
    elsewhere = Location(3, 4)
    with pytest.raises(DamagedStateError, match="written as segment 000003, record 2"):
        unpack(corpora.LAYOUT, elsewhere, data)
    moved = unpack(corpora.LAYOUT, elsewhere, bytes(relocate(data, elsewhere)))
    assert moved.token_ids.tolist() == parts["token_ids"].tolist()


@pytest.mark.parametrize("with_suffixes", [False, True])
def test_a_record_says_whether_its_state_is_refined_and_still_does_when_it_is_moved(with_suffixes):
    parts = {"token_ids": corpora.tokens_of(1), "fingerprint": FINGERPRINT, **corpora.parts_of(1)}
    if not with_suffixes:
        parts["suffix_array"] = None
    for refined in (False, True):
        data = bytes(pack(corpora.LAYOUT, PLACE, **parts, refined=refined))
        assert int.from_bytes(data[10:12], "little") == 1 * with_suffixes + 2 * refined
        elsewhere = Location(3, 4)
        moved = unpack(corpora.LAYOUT, elsewhere, bytes(relocate(data, elsewhere)))
        assert moved.refined == unpack(corpora.LAYOUT, PLACE, data).refined == refined
        assert len(moved.suffix_array) == (len(parts["token_ids"]) if with_suffixes else 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"state": b"short"}, "another size"),
        ({"tau": np.zeros(1, np.float32)}, "another size"),
        ({"token_ids": []}, "no room"),
        ({"token_ids": list(range(corpora.MAX_TOKENS + 1)), "suffix_array": None}, "no room"),
        ({"token_ids": [70000], "suffix_array": None}, "does not fit"),
        ({"token_ids": [-1], "suffix_array": None}, "does not fit"),
        ({"suffix_array": np.zeros(1, int)}, "as long as its tokens"),
        ({"fingerprint": b"short"}, "32 bytes"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(change, message):
    parts = {"token_ids": corpora.tokens_of(1), "fingerprint": FINGERPRINT, **corpora.parts_of(1)}
    with pytest.raises(StateError, match=message):
        pack(corpora.LAYOUT, PLACE, **{**parts, **change})


def test_layouts_that_cannot_be_are_refused():
    for sizes in ((-1, 0, 1), (1, 3, 1), (1, 4, 0)):
        with pytest.raises(StateError, match="cannot have these sizes"):
            RecordLayout(*sizes)
    with pytest.raises(StateError, match="2 or 4"):
        RecordLayout(1, 4, 1, 3)
    with pytest.raises(StateError, match="too long"):
        RecordLayout(1, 4, 1, 2, {"note": "x" * 5000})


@given(layouts, st.integers(0, 1 << 31))
def test_a_segment_header_round_trips(layout, number):
    assert RecordLayout.from_segment_header(layout.segment_header(number), number) == layout


@settings(max_examples=300)
@given(st.integers(0, 4095), st.integers(1, 255))
def test_a_flipped_byte_in_a_segment_header_is_refused(position, change):
    header = bytearray(corpora.LAYOUT.segment_header(7))
    header[position] ^= change
    with pytest.raises(DamagedCorpusError, match="segment 000007"):
        RecordLayout.from_segment_header(bytes(header), 7)


def test_a_segment_of_a_newer_format_is_refused():
    header = bytearray(corpora.LAYOUT.segment_header(7))
    header[12] = 2
    header[8:12] = zlib.crc32(header[12:]).to_bytes(4, "little")
    with pytest.raises(DamagedCorpusError, match="unknown format; given: 2; expected: 1"):
        RecordLayout.from_segment_header(bytes(header), 7)


def written_segments(folder: Path, num_records: int) -> SegmentWriter:
    writer = SegmentWriter(folder, corpora.LAYOUT, corpora.SEGMENT_BYTES)
    for seed in range(num_records):
        place = writer.next_location()
        parts = {"token_ids": corpora.tokens_of(seed), "fingerprint": FINGERPRINT, **corpora.parts_of(seed)}
        writer.append(place, pack(corpora.LAYOUT, place, **parts))
    writer.sync()
    return writer


def test_segments_roll_over_and_every_record_is_one_read(tmp_path):
    writer = written_segments(tmp_path, 12)
    assert writer.counts == {0: 5, 1: 5, 2: 2}
    sizes = [p.stat().st_size for p in sorted(tmp_path.iterdir())]
    assert sizes == [corpora.LAYOUT.offset(n) for n in (5, 5, 2)]
    assert all(p.stat().st_mode & 0o777 == 0o600 for p in tmp_path.iterdir())
    reader = SegmentReader(tmp_path, corpora.LAYOUT)
    for seed in range(12):
        record = reader.read(Location(seed // 5, seed % 5))
        np.testing.assert_array_equal(record.state, corpora.parts_of(seed)["state"])
    reader.prefetch([Location(0, 1), Location(2, 0)])
    for missing in (Location(2, 2), Location(9, 0)):
        with pytest.raises(DamagedStateError, match=str(missing)):
            reader.read(missing)
    reader.close()


def test_a_reader_refuses_segments_of_another_layout(tmp_path):
    written_segments(tmp_path, 1)
    other = RecordLayout(corpora.STATE_BYTES, 0, corpora.MAX_TOKENS)
    reader = SegmentReader(tmp_path, other)
    with pytest.raises(DamagedCorpusError, match="another record layout"):
        reader.read(Location(0, 0))


@pytest.mark.parametrize("extra", [0, 1, 100, 4096, corpora.LAYOUT.record_bytes * 3])
def test_recovery_cuts_off_what_was_never_acknowledged(tmp_path, extra):
    written_segments(tmp_path, 7)
    before = segment_path(tmp_path, 1).read_bytes()
    with segment_path(tmp_path, 1).open("ab") as file:
        file.write(b"\xaa" * extra)
    (tmp_path / "000002.seg").write_bytes(corpora.LAYOUT.segment_header(2)[:100])
    writer = SegmentWriter(tmp_path, corpora.LAYOUT, corpora.SEGMENT_BYTES)
    writer.recover({0: 5, 1: 2}, 2)
    assert segment_path(tmp_path, 1).read_bytes() == before
    assert not (tmp_path / "000002.seg").exists()
    assert writer.next_location() == Location(1, 2)


def test_files_of_others_among_the_segments_stay(tmp_path):
    written_segments(tmp_path, 7)
    strangers = {"notes.txt": b"x", "2024.seg": b"x", "000002.seg": b"not a segment", "000003.seg": b"PRECOG? no"}
    for name, data in strangers.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "000009.seg").mkdir()
    writer = SegmentWriter(tmp_path, corpora.LAYOUT, corpora.SEGMENT_BYTES)
    writer.recover({0: 5}, 1)
    assert not (tmp_path / "000001.seg").exists()
    assert {name: (tmp_path / name).read_bytes() for name in strangers} == strangers
    assert writer.next_location() == Location(10, 0)


def test_a_file_of_others_in_the_place_of_a_segment_is_neither_cut_nor_erased(tmp_path):
    written_segments(tmp_path, 5)
    path, photo = segment_path(tmp_path, 0), b"\xff\xd8" * 50_000
    path.write_bytes(photo)
    writer = SegmentWriter(tmp_path, corpora.LAYOUT, corpora.SEGMENT_BYTES)
    with pytest.raises(DamagedCorpusError, match=r"segment 000000 is damaged.*reindex"):
        writer.recover({0: 2}, 1)
    writer.recover({0: 2}, 1, allow_damaged=True)
    assert writer.damage == ("segment 000000 is damaged: its header is another one",)
    assert writer.next_location() == Location(1, 0)
    assert writer.erase([Location(0, 1)]) == [Location(0, 1)]
    writer.remove([0])
    assert path.read_bytes() == photo


def test_a_flipped_bit_of_a_header_is_mended_where_damage_is_allowed(tmp_path):
    written_segments(tmp_path, 3)
    path = segment_path(tmp_path, 0)
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + bytes([whole[40] ^ 16]) + whole[41:])
    writer = SegmentWriter(tmp_path, corpora.LAYOUT, corpora.SEGMENT_BYTES)
    with pytest.raises(DamagedCorpusError, match="its header is another one"):
        writer.recover({0: 3}, 1)
    writer.recover({0: 3}, 1, allow_damaged=True)
    assert (path.read_bytes(), writer.damage) == (whole, ())
    assert writer.next_location() == Location(0, 3)


def test_an_acknowledged_record_that_is_gone_is_damage_with_a_way_out(tmp_path):
    written_segments(tmp_path, 7)
    path = segment_path(tmp_path, 1)
    path.write_bytes(path.read_bytes()[:-1])
    writer = SegmentWriter(tmp_path, corpora.LAYOUT, corpora.SEGMENT_BYTES)
    with pytest.raises(DamagedCorpusError, match=r"segment 000001 is cut short.*reindex"):
        writer.recover({0: 5, 1: 2}, 2)
    path.unlink()
    with pytest.raises(DamagedCorpusError, match="segment 000001 is missing; expected: "):
        writer.recover({0: 5, 1: 2}, 2)
    writer.recover({0: 5, 1: 2}, 2, allow_damaged=True)
    assert writer.erase([Location(1, 0)]) == []
    assert writer.next_location() == Location(2, 0)


def test_erased_records_are_zeros_and_their_neighbours_are_whole(tmp_path):
    writer = written_segments(tmp_path, 5)
    path = segment_path(tmp_path, 0)
    before = path.read_bytes()
    writer.erase([Location(0, 1), Location(0, 3), Location(8, 0)])
    after, size = path.read_bytes(), corpora.LAYOUT.record_bytes
    for slot in range(5):
        part = slice(4096 + slot * size, 4096 + (slot + 1) * size)
        assert after[part] == (bytes(size) if slot in (1, 3) else before[part])
    assert len(after) == len(before)
