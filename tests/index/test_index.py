"""Dense, lexical and hybrid search against brute force; files that can and cannot be trusted."""

import os
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from precog.errors import CorpusError, StorageError
from precog.index import DenseIndex, HybridIndex, IndexSource, LexicalIndex, StaleIndexError
from precog.index.dense import EXACT_LIMIT
from precog.index.hybrid import DENSE_FILE, LEXICAL_FILE
from precog.index.top import top_rows

DIM = 16
WORDS = [
    "alpha",
    "beta",
    "gamma",
    "delta",
    "zeta",
    "eta",
    "theta",
    "iota",
    "kappa",
    "mu",
    "nu",
    "xi",
    "pi",
    "rho",
    "tau",
]


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


def keys_of(chunk_id):
    rng = np.random.default_rng(chunk_id)
    return unit(rng.standard_normal((1 + chunk_id % 3, DIM)))


def text_of(chunk_id):
    rng = np.random.default_rng(chunk_id)
    return " ".join(rng.choice(WORDS, 4 + chunk_id % 9)) + f" only{chunk_id}"


def query_key(seed):
    return unit(np.random.default_rng(10_000 + seed).standard_normal(DIM))


def dense_of(ids, **options):
    return DenseIndex.build(DIM, ((i, keys_of(i)) for i in ids), **options)


def lexical_of(ids):
    return LexicalIndex.build((i, text_of(i)) for i in ids)


def source_of(ids, generation=1, tag="encoder"):
    def chosen(wanted):
        return ids if wanted is None else [i for i in wanted if i in ids]

    return IndexSource(
        chunk_ids=lambda: ids,
        keys=lambda wanted: [(i, keys_of(i)) for i in chosen(wanted)],
        texts=lambda wanted: [(i, text_of(i)) for i in chosen(wanted)],
        generation=generation,
        tag=tag,
        dim=DIM,
    )


def brute_dense(ids, key):
    return {i: float((keys_of(i) @ key).max()) for i in ids}


def brute_bm25(texts, query, k1=0.9, b=0.75):
    split = {i: text.split() for i, text in texts.items()}
    mean = sum(map(len, split.values())) / len(split)
    scores = dict.fromkeys(split, 0.0)
    for word in set(query.split()):
        num_with = sum(word in words for words in split.values())
        idf = np.log(1 + (len(split) - num_with + 0.5) / (num_with + 0.5))
        for i, words in split.items():
            count = words.count(word)
            scores[i] += idf * count / (count + k1 * (1 - b + b * len(words) / mean))
    return scores


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(np.float32, st.integers(0, 700), elements=st.integers(-3, 3).map(float) | st.floats(-9, 9, width=32)),
    st.integers(0, 80),
)
def test_top_rows_is_a_stable_sort_cut_short(scores, k):
    expected = np.argsort(-scores, kind="stable")[:k]
    np.testing.assert_array_equal(top_rows(scores, k), expected)


@pytest.mark.parametrize("ids", [range(1, 60), [9, 3, 50, 4]], ids=["rising", "any order"])
def test_dense_search_is_the_best_window_of_each_chunk(ids):
    index = dense_of(ids)
    assert index.chunk_ids.tolist() == sorted(ids)
    assert index.num_keys == sum(1 + i % 3 for i in ids)
    for seed in range(5):
        key, expected = query_key(seed), brute_dense(ids, query_key(seed))
        for k in (1, 4, 1000):
            chunks, scores = index.search(key, k)
            order = sorted(expected, key=expected.get, reverse=True)[:k]
            assert chunks.tolist() == order
            np.testing.assert_allclose(scores, [expected[i] for i in order], atol=1e-3)
        wanted = np.array([*sorted(ids), 999])
        np.testing.assert_allclose(
            index.scores_of(key, wanted.tolist()), [expected.get(i, -1.0) for i in wanted.tolist()], atol=1e-3
        )
        for part in (wanted, wanted[1::2], wanted[:0], wanted[-1:]):
            np.testing.assert_allclose(index.part_scores(key, part), index.scores_of(key, part.tolist()), rtol=1e-5)


def test_chunks_of_many_windows_do_not_crowd_others_out():
    same = unit(np.ones((40, DIM)))
    index = DenseIndex.build(DIM, [(1, same), (2, -same[:1]), (3, same[:1] * 0.5)])
    assert index.search(same[0], 3)[0].tolist() == [1, 3, 2]


@pytest.mark.parametrize("exact_limit", [EXACT_LIMIT, 300], ids=["exact", "lists"])
def test_adding_and_removing_equals_building(exact_limit):
    index = dense_of(range(1, 201), exact_limit=exact_limit)
    index.add((i, keys_of(i)) for i in range(300, 350))
    index.remove([*range(1, 80, 3), 320, 12345])
    index.add((i, keys_of(i)) for i in (250, 260))
    kept = sorted({*range(1, 201), *range(300, 350)} - {*range(1, 80, 3), 320} | {250, 260})
    assert index.is_exact == (exact_limit == EXACT_LIMIT)
    assert index.chunk_ids.tolist() == kept
    whole = dense_of(kept)
    agreed = 0
    for seed in range(20):
        chunks, scores = index.search(query_key(seed), 10)
        assert set(chunks.tolist()) <= set(kept)
        np.testing.assert_allclose(scores, whole.scores_of(query_key(seed), chunks.tolist()), atol=1e-3)
        agreed += len(set(chunks.tolist()) & set(whole.search(query_key(seed), 10)[0].tolist()))
    assert agreed >= (200 if index.is_exact else 160)
    index.remove(kept)
    assert index.search(query_key(0), 5)[0].tolist() == []


def test_keys_of_another_width_are_refused():
    with pytest.raises(CorpusError, match="another width"):
        DenseIndex.build(DIM, [(1, np.ones((1, 3), np.float32))])


@settings(deadline=None, max_examples=50)
@given(st.lists(st.integers(1, 80), min_size=1, max_size=60, unique=True), st.lists(st.sampled_from(WORDS), max_size=5))
def test_lexical_scores_are_bm25(ids, asked):
    index = lexical_of(ids)
    texts = {i: text_of(i) for i in ids}
    query = " ".join([*asked, f"only{ids[0]}", "unheard"])
    expected = brute_bm25(texts, query)
    assert index.chunk_ids.tolist() == sorted(ids)
    np.testing.assert_allclose(index.scores(query), [expected[i] for i in sorted(ids)], rtol=1e-4, atol=1e-6)


@settings(deadline=None, max_examples=50)
@given(st.sets(st.integers(1, 60)), st.sets(st.integers(61, 90)), st.sets(st.integers(1, 95)))
def test_a_changed_lexical_index_is_the_one_built_anew(first, added, gone):
    changed = lexical_of(sorted(first)).with_added((i, text_of(i)) for i in sorted(added)).without(gone)
    anew = lexical_of(sorted((first | added) - gone))
    for name in ("_chunk_ids", "_lengths", "_words", "_starts", "_rows", "_counts", "_impacts"):
        np.testing.assert_array_equal(getattr(changed, name), getattr(anew, name), err_msg=name)
    assert changed._common.keys() == anew._common.keys()


def test_nothing_to_search_is_no_hit():
    index = HybridIndex.build(source_of([]))
    for retrieval in ("hybrid", "dense", "bm25"):
        assert index.search("alpha", query_key(0), 3, retrieval=retrieval) == []
    full = HybridIndex.build(source_of(range(1, 30)))
    assert full.search("", query_key(0), 0) == []
    assert full.search("unheard", None, 3, retrieval="bm25") == []


@pytest.mark.parametrize("seed", range(6))
def test_hybrid_is_half_and_half_of_max_normalised_scores(seed):
    ids = range(1, 120)
    index = HybridIndex.build(source_of(ids))
    query, key = " ".join(np.random.default_rng(seed).choice(WORDS, 3)), query_key(seed)
    dense, words = brute_dense(ids, key), brute_bm25({i: text_of(i) for i in ids}, query)
    fused = {i: 0.5 * max(dense[i], 0) / max(dense.values()) + 0.5 * words[i] / max(words.values()) for i in ids}
    hits = index.search(query, key, 5)
    assert [h.chunk_id for h in hits] == sorted(fused, key=fused.get, reverse=True)[:5]
    for hit in hits:
        assert hit.score == pytest.approx(fused[hit.chunk_id], abs=2e-3)
        assert hit.dense == pytest.approx(dense[hit.chunk_id], abs=1e-3)
        assert hit.lexical == pytest.approx(words[hit.chunk_id], rel=1e-3)
    by_words = index.search(query, None, 5, retrieval="bm25")
    assert [h.chunk_id for h in by_words] == sorted(words, key=words.get, reverse=True)[:5]
    by_meaning = index.search(query, key, 5, retrieval="dense")
    assert [h.chunk_id for h in by_meaning] == sorted(dense, key=dense.get, reverse=True)[:5]


def test_words_find_what_meaning_misses_and_the_other_way_round():
    index = HybridIndex.build(source_of(range(1, 200)))
    assert index.search("only77", query_key(3), 1)[0].chunk_id == 77
    assert index.search("unheard", keys_of(55)[0], 1)[0].chunk_id == 55


def test_a_part_is_searched_by_itself():
    index = HybridIndex.build(source_of([*range(1, 60), 99]))
    for seed in range(5):
        query, key = f"alpha beta only{seed + 20}", query_key(seed)
        worded = index.by_words(query, 8)
        whole = index.search_part(worded, key, 8, index.lexical.chunk_ids)
        assert [hit.chunk_id for hit in whole] == [hit.chunk_id for hit in index.search(query, key, 8)]
        part = np.array([2, 3, 5, 21, 40, 99])
        alone = HybridIndex.build(source_of(part.tolist()))
        found = index.search_part(worded, key, 8, np.append(part, 1000))
        assert {hit.chunk_id for hit in found} == {*part.tolist(), 1000}
        assert found[-1].score == 0
        dense = {hit.chunk_id: hit.dense for hit in alone.search("", key, 8)}
        words = dict(zip(index.lexical.chunk_ids.tolist(), index.lexical.scores(query).tolist(), strict=True))
        most, most_words = max(dense.values()), max(words[number] for number in part.tolist())
        for hit in found[:-1]:
            expected = max(dense[hit.chunk_id], 0) / most / 2 + words[hit.chunk_id] / most_words / 2
            assert hit.score == pytest.approx(expected, abs=1e-3)
    assert index.search_part(worded, key, 8, part[:0]) == []


def neighbours_of(ids, generation):
    """Texts that hold the words of the chunk before, too."""
    ids = sorted(ids)

    def texts(wanted):
        pairs = [(i, f"{text_of(last) if last else ''} {text_of(i)}") for last, i in zip([0, *ids], ids, strict=False)]
        return pairs if wanted is None else [pair for pair in pairs if pair[0] in set(wanted)]

    def followers(changed):
        return {next((i for i in ids if i > gone), None) for gone in changed} - {None}

    return replace(source_of(ids, generation), texts=texts, followers=followers)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=st.sets(st.integers(1, 12)), after=st.sets(st.integers(1, 12)))
def test_words_of_neighbours_come_and_go_with_them(tmp_path, before, after):
    HybridIndex.build(neighbours_of(before, 1)).save(tmp_path, generation=1, tag="encoder")
    now = neighbours_of(after, 2)
    updated, _ = HybridIndex.open(tmp_path, now)
    updated.lexical.save(tmp_path / "updated", generation=2, tag="encoder")
    HybridIndex.build(now).lexical.save(tmp_path / "built", generation=2, tag="encoder")
    assert (tmp_path / "updated").read_bytes() == (tmp_path / "built").read_bytes()


def same_answers(first, second):
    return all(
        first.search(f"alpha only{n}", query_key(n), 8) == second.search(f"alpha only{n}", query_key(n), 8)
        for n in range(5)
    )


@pytest.mark.parametrize("exact_limit", [EXACT_LIMIT, 100], ids=["exact", "lists"])
def test_files_round_trip(tmp_path, exact_limit):
    source = source_of(list(range(1, 90)), generation=7)
    index = HybridIndex.build(source, exact_limit=exact_limit)
    index.save(tmp_path, generation=7, tag="encoder")
    assert sorted(p.name for p in tmp_path.iterdir()) == [DENSE_FILE, LEXICAL_FILE]
    assert all(p.stat().st_mode & 0o777 == 0o600 for p in tmp_path.iterdir())
    before = {p: p.read_bytes() for p in tmp_path.iterdir()}
    loaded, problem = HybridIndex.open(tmp_path, source, exact_limit=exact_limit)
    assert problem is None
    assert loaded.dense.is_exact == (exact_limit == EXACT_LIMIT)
    assert same_answers(index, loaded)
    loaded.save(tmp_path, generation=7, tag="encoder")
    assert {p: p.read_bytes() for p in tmp_path.iterdir()} == before


@pytest.mark.parametrize("name", [DENSE_FILE, LEXICAL_FILE])
@pytest.mark.parametrize("damage", ["missing", "flipped", "truncated", "empty", "foreign"])
def test_a_file_that_cannot_be_trusted_is_rebuilt_and_the_caller_is_told(tmp_path, name, damage):
    source = source_of(list(range(1, 40)))
    whole = HybridIndex.build(source)
    whole.save(tmp_path, generation=1, tag="encoder" if damage != "foreign" else "another")
    if damage != "foreign":
        other = tmp_path / (LEXICAL_FILE if name == DENSE_FILE else DENSE_FILE)
        assert other.exists()
    path = tmp_path / name
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "flipped":
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
    elif damage == "truncated":
        path.write_bytes(data[:-100])
    elif damage == "empty":
        path.write_bytes(b"")
    loaded, problem = HybridIndex.open(tmp_path, source)
    assert isinstance(problem, StaleIndexError)
    assert "\n" not in str(problem)
    assert same_answers(whole, loaded)


@settings(deadline=None, max_examples=150)
@given(st.floats(0, 1, exclude_max=True), st.integers(0, 7))
def test_a_flipped_bit_anywhere_in_an_index_file_is_noticed(tmp_path_factory, share, bit):
    folder = tmp_path_factory.getbasetemp() / "flips"
    folder.mkdir(exist_ok=True)
    path = folder / DENSE_FILE
    if not (folder / "original").exists():
        dense_of(range(1, 12)).save(folder / "original", generation=3, tag="t")
    data = bytearray((folder / "original").read_bytes())
    data[int(share * len(data))] ^= 1 << bit
    path.write_bytes(data)
    with pytest.raises(StaleIndexError):
        DenseIndex.load(path, dim=DIM, tag="t")


def test_older_files_are_brought_up_to_date(tmp_path):
    HybridIndex.build(source_of(list(range(1, 60)))).save(tmp_path, generation=1, tag="encoder")
    ids = [*range(10, 60), *range(80, 90)]
    asked = []
    now = source_of(ids, generation=2)

    def counted(wanted):
        asked.append(wanted)
        return now.keys(wanted)

    source = IndexSource(now.chunk_ids, counted, now.texts, 2, "encoder", DIM)
    loaded, problem = HybridIndex.open(tmp_path, source)
    assert "older than the catalogue" in str(problem)
    assert asked == [list(range(80, 90))]
    assert same_answers(HybridIndex.build(now), loaded)


def test_a_full_disk_keeps_the_old_file(tmp_path, monkeypatch):
    index = dense_of(range(1, 9))
    index.save(tmp_path / DENSE_FILE, generation=1, tag="t")
    before = (tmp_path / DENSE_FILE).read_bytes()

    def full(descriptor, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(StorageError, match="No space left"):
        index.save(tmp_path / DENSE_FILE, generation=2, tag="t")
    with pytest.raises(StorageError, match="No space left"):
        lexical_of(range(3)).save(tmp_path / LEXICAL_FILE, generation=2, tag="t")
    assert [p.name for p in tmp_path.iterdir()] == [DENSE_FILE]
    assert (tmp_path / DENSE_FILE).read_bytes() == before


def test_threads_find_the_same(tmp_path):
    index = HybridIndex.build(source_of(range(1, 300)))
    expected = [index.search(f"beta only{n}", query_key(n), 5) for n in range(30)]
    wrong = []

    def ask():
        wrong.extend(n for n in range(30) if index.search(f"beta only{n}", query_key(n), 5) != expected[n])

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_no_word_of_a_text_is_in_the_lexical_file(tmp_path):
    index = LexicalIndex.build([(1, "confidential merger"), (2, "public picnic")])
    index.save(tmp_path / LEXICAL_FILE, generation=1, tag="t")
    data = (tmp_path / LEXICAL_FILE).read_bytes()
    assert b"merger" not in data
    assert b"confid" not in data


def test_these_rooms_do_without_torch():
    code = "import sys, precog.store, precog.index, precog.encoders; print('torch' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
