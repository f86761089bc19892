"""Run by test_crashes.py in a process of its own: reads a corpus while others write, until told to stop.

Arguments: the corpus, and a file whose appearance ends the run. Prints one line of JSON.
"""

import json
import sys
from pathlib import Path

import corpora
import numpy as np

from precog.errors import CorpusError
from precog.store import CorpusStore


def main():
    path, stop = Path(sys.argv[1]), Path(sys.argv[2])
    reads, wrong, gone = 0, [], 0
    with CorpusStore.open(path) as store:
        print("ready", flush=True)
        while not stop.exists():
            ids = list(store.visible_chunk_ids())
            chunks = store.chunks(ids)
            by_document = {}
            for chunk in chunks.values():
                by_document.setdefault(chunk.document_id, []).append(chunk)
                seed = int(chunk.info.text[-6:])
                try:
                    record = store.read_state(chunk.id)
                except CorpusError:
                    gone += 1
                    continue
                reads += 1
                if not np.array_equal(record.state, corpora.parts_of(seed)["state"]):
                    wrong.append(seed)
    print(json.dumps({"reads": reads, "wrong": wrong, "gone": gone}))


if __name__ == "__main__":
    main()
