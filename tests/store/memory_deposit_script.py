"""Run by test_memory_crashes.py in a process of its own: deposits into a memory that others deposit into, too.

Arguments: the memory, the first seed, how many, and how long to wait for another writer.
"""

import sys
from pathlib import Path

import memories

from precog.errors import BusyError
from precog.store.memory import MemoryStore


def main():
    path, first, count, wait_sec = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
    print("ready", flush=True)
    sys.stdin.readline()
    for seed in range(first, first + count):
        try:
            with MemoryStore.open_or_create(path, **memories.OPTIONS, wait_sec=wait_sec) as store:
                memories.fill(store, [seed])
        except BusyError as error:
            print(error, flush=True)
            return
    print("done", flush=True)


if __name__ == "__main__":
    main()
