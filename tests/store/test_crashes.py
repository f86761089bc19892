"""Law 8 below the corpus layer: crashes, full disks, several processes."""

import errno
import json
import os
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import corpora
import pytest

from precog.errors import BusyError, StorageError
from precog.store import CorpusStore

HERE = Path(__file__).parent


def run_script(name, *arguments, **options):
    command = [sys.executable, str(HERE / name), *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONHASHSEED": "0"}, **options
    )


@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_writer_killed_at_any_point_resumes_to_the_same_bytes(tmp_path, first):
    process = run_script("crash_script.py", tmp_path, first, 3)
    output, _ = process.communicate(timeout=120)
    report = json.loads(output.splitlines()[-1])
    assert report["failures"] == []
    assert report["points"] > 60


def test_readers_never_see_anything_half_done(tmp_path):
    path, stop = tmp_path / "corpus", tmp_path / "stop"
    with corpora.create(path) as store:
        corpora.fill(store, 4, 5)
        readers = [run_script("traffic_script.py", path, stop) for _ in range(2)]
        for reader in readers:
            assert reader.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 1.5
        step = 0
        while time.monotonic() < deadline:
            number = step % 4
            with store.batch() as batch:
                seeds = range(step, step + 5)
                corpora.add_document(batch, f"doc{number}.txt", seeds, content=bytes([65 + step % 26]))
            if step % 7 == 6:
                store.compact()
            step += 1
        stop.touch()
    for reader in readers:
        report = json.loads(reader.communicate(timeout=60)[0].splitlines()[-1])
        assert reader.returncode == 0
        assert report["wrong"] == []
        assert report["reads"] > 3  # hundreds, on an idle machine


def test_a_second_writer_waits_and_is_then_refused_or_let_in(tmp_path):
    path = tmp_path / "corpus"
    store = corpora.create(path)
    started = time.monotonic()
    with pytest.raises(BusyError, match=f"process {os.getpid()}"):
        CorpusStore.open(path, write=True, wait_sec=0.15)
    assert time.monotonic() - started >= 0.15
    CorpusStore.open(path).close()
    threading.Timer(0.2, store.close).start()
    CorpusStore.open(path, write=True, wait_sec=20.0).close()


def test_a_killed_writer_leaves_its_lock_to_the_next(tmp_path):
    path = tmp_path / "corpus"
    corpora.create(path).close()
    code = f"""
import os, signal
from pathlib import Path
from precog.store import CorpusStore
store = CorpusStore.open(Path({str(path)!r}), write=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    CorpusStore.open(path, write=True, wait_sec=0.0).close()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_a_disk_that_refuses_undoes_the_unit_and_nothing_else(tmp_path, monkeypatch, code, call):
    real = getattr(os, call)
    with corpora.create(tmp_path / "corpus") as store:
        corpora.fill(store, 2, 4)
        before, files = store.checksum(), corpora.segment_bytes(store.path)
        for allowed in range(6 if call == "pwrite" else 1):
            left = [allowed]

            def refuse(*arguments, left=left):
                left[0] -= 1
                if left[0] < 0:
                    raise OSError(code, os.strerror(code))
                return real(*arguments)

            def add_one():
                with store.batch() as batch:
                    corpora.add_document(batch, "new", range(30, 38))

            with monkeypatch.context() as patch:
                patch.setattr(os, call, refuse)
                with pytest.raises(StorageError, match="nothing acknowledged was lost") as caught:
                    add_one()
            assert "\n" not in str(caught.value)
            assert ("full" in str(caught.value)) == (code != errno.EIO)
            assert (store.checksum(), corpora.segment_bytes(store.path)) == (before, files)
        add_one()
        assert store.size().num_documents == 3


def test_a_catalogue_that_may_not_grow_is_a_full_disk(tmp_path):
    with corpora.create(tmp_path / "corpus") as store:
        corpora.fill(store, 1)
        before = store.checksum()
        (pages,) = store._catalogue._one("PRAGMA page_count")
        store._catalogue._one(f"PRAGMA max_page_count = {pages}")

        def add_many():
            with store.batch() as batch:
                corpora.add_document(batch, "new", range(200))

        with pytest.raises(StorageError, match="the disk is full"):
            add_many()
        assert store.checksum() == before
        store._catalogue._one("PRAGMA max_page_count = 100000")
        add_many()


def test_a_quota_in_another_process_loses_nothing_acknowledged(tmp_path):
    path = tmp_path / "corpus"
    code = f"""
import sys
sys.path.insert(0, {str(HERE)!r})
import corpora
from pathlib import Path
from precog.errors import StorageError
store = corpora.create(Path({str(path)!r}), max_segment_bytes=1 << 30)
done = 0
try:
    for number in range(1000):
        with store.batch() as batch:
            corpora.add_document(batch, f"doc{{number}}", range(number * 3, number * 3 + 3))
        done += 1
except StorageError as error:
    print(done, error)
"""
    limit = 1_000_000

    def with_quota():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    process = subprocess.run(
        [sys.executable, "-c", code], preexec_fn=with_quota, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    done = int(process.stdout.split()[0])
    assert done > 3
    with CorpusStore.open(path, write=True) as store:
        assert store.size().num_documents == done
        assert store.size().num_chunks == 3 * done
        store.checksum()
        with store.batch() as batch:
            corpora.add_document(batch, "and on", [5000])
