"""Run by test_crashes.py in a process of its own: dies at one point of writing after another and resumes.

Arguments: a folder, the first point, and a stride. Prints one line of JSON.
"""

import json
import os
import shutil
import sys
from pathlib import Path

import corpora

from precog.store import CorpusStore
from precog.store.catalogue import Catalogue

NUM_DOCUMENTS = 6


def write_everything(path):
    """A deterministic run of commit units, resumable: every second document spans two, every third is replaced."""
    has_begun = (path / "precog.json").exists()
    with CorpusStore.open(path, write=True) if has_begun else corpora.create(path) as store:
        for number in range(NUM_DOCUMENTS):
            for source, content, seeds in (
                (f"doc{number}", b"x", [number, number + 1, 7]),
                *([(f"doc{number}", b"y", [number + 30, 7])] if number % 3 == 2 else []),
            ):
                settled = [d for d in store.find_documents(source) if d.status == "indexed"]
                if settled and settled[0].info.raw_sha256 >= content * 32:
                    continue
                if number % 2 and content == b"x":
                    with store.batch() as batch:
                        corpora.add_document(batch, source, seeds[:2], finish=False, content=content)
                with store.batch() as batch:
                    corpora.add_document(batch, source, seeds, content=content)


class Reaper:
    """Kills this process at the n-th operation that touches the disk."""

    def __init__(self, countdown, database=Catalogue):
        self.countdown, self.database = countdown, database
        self._pwrite, self._fdatasync, self._fsync, self._commit = os.pwrite, os.fdatasync, os.fsync, database.commit

    def __enter__(self):
        def pwrite(descriptor, data, offset):
            if self.is_due():
                self._pwrite(descriptor, bytes(data)[: len(data) // 2], offset)
                os._exit(9)
            return self._pwrite(descriptor, data, offset)

        def commit(catalogue):
            self.step()
            self._commit(catalogue)
            self.step()

        def syncing(call):
            def sync(descriptor):
                self.step()
                return call(descriptor)

            return sync

        os.pwrite, os.fdatasync, os.fsync = pwrite, syncing(self._fdatasync), syncing(self._fsync)
        self.database.commit = commit

    def __exit__(self, *_):
        os.pwrite, os.fdatasync, os.fsync, self.database.commit = (
            self._pwrite,
            self._fdatasync,
            self._fsync,
            self._commit,
        )

    def is_due(self):
        self.countdown -= 1
        return self.countdown == 0

    def step(self):
        if self.is_due():
            os._exit(9)


def content_of(path):
    with CorpusStore.open(path) as store:
        return store.checksum(), {n: hash(d) for n, d in corpora.segment_bytes(path).items()}


def main():
    os.fdatasync = os.fsync = lambda descriptor: None  # a killed process, unlike a dead machine, loses no cached page
    base, first, stride = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    write_everything(base / "whole")
    expected = content_of(base / "whole")
    point, failures = first, []
    while True:
        path = base / f"crash{point}"
        child = os.fork()
        if child == 0:
            with Reaper(point):
                write_everything(path)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            break
        write_everything(path)
        if content_of(path) != expected:
            failures.append(point)
        shutil.rmtree(path)
        point += stride
    print(json.dumps({"points": point, "failures": failures}))


if __name__ == "__main__":
    main()
