"""Slices of a prepared set asked about by every process, each written as it is done; one new set of them in the end."""

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from precog.backbones.tenns.model import TennsModel
from precog.errors import StorageError, TrainingError
from precog.interrupt import Interrupt
from precog.train.asking.parts import columns_of, is_written, joined, read_part, write_part
from precog.train.asking.request import TRAIN, VAL, AskRequest
from precog.train.asking.write import Asked, ask_slice
from precog.train.data.rows import Columns, PreparedSet, write_columns
from precog.train.data.tokens import Pieces
from precog.train.parallel import agreed, place_in_world, summed

SAMPLES = 12
TEXT_THREADS = 4


class AskingInterrupted(TrainingError):
    """The run was asked to stop; finished slices are kept and the same command goes on from them."""

    code = "interrupted"
    exit_status = 130

    def __init__(self, work: Path) -> None:
        super().__init__(
            f"interrupted, finished slices are in {work}",
            hint="run the same command again to go on from there",
        )


class Writer:
    """Asks about prepared sets, slice by slice."""

    def __init__(
        self, request: AskRequest, asker: TennsModel, judge: TennsModel, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._request, self._asker, self._judge, self._device, self._dtype = request, asker, judge, device, dtype
        self._pieces = Pieces(TEXT_THREADS)
        self._rank, self._world = place_in_world()

    def write(
        self,
        prepared: PreparedSet,
        part: str,
        on_asking: Callable[[int, int, dict[str, Any]], None],
        say: Callable[[str], None],
    ) -> dict[str, Any]:
        """Ask about one set and write the new one; what became of it."""
        request, asking = self._request, self._request.asking
        limit = request.chunks if part == TRAIN else request.held_out_chunks
        limit_sec = request.seconds if part == TRAIN else None
        number = (VAL, TRAIN).index(part)
        order = np.random.default_rng((asking.seed, number)).permutation(len(prepared))[:limit]
        size = asking.slice_chunks
        slices = [np.sort(order[start : start + size]) for start in range(0, len(order), size)]
        paths = [request.work / part / f"{k:05}.npz" for k in range(len(slices))]
        with agreed(self._device):
            pending = [k for k, chunks in enumerate(slices) if not is_written(paths[k], chunks)]
        began = time.monotonic()
        with agreed(self._device):  # nobody writes before all have looked
            asked = self._slices(prepared, number, [(k, slices[k], paths[k]) for k in pending], limit_sec, on_asking)
        seconds = time.monotonic() - began
        rows = int(summed(torch.tensor([float(asked)], device=self._device)).item())
        with agreed(self._device):
            done = [k for k, chunks in enumerate(slices) if is_written(paths[k], chunks)]
            found = joined([read_part(paths[k]) for k in done]) if done else None
            result = self._result(found, done, slices)
            result |= {"seconds": round(seconds, 1), "rows_per_sec": round(rows / seconds) if rows else 0}
            if found is None or not len(found):
                if part == TRAIN:
                    told = ", ".join(f"{name} {count}" for name, count in result["refused"].items() if count)
                    raise TrainingError(f"no question stayed: {told or 'no slice was finished in time'}")
                say("no held-out question stayed")
                return result
            columns = columns_of(prepared, found, asking.seed, request.plain)
            result["questions"] = len(columns["row_len"])
            result["samples"] = self._samples(found)
            if self._rank == 0:
                self._write(request.data / part / request.name, columns)
        return result

    def _slices(
        self,
        prepared: PreparedSet,
        number: int,
        pending: list[tuple[int, NDArray[np.int64], Path]],
        limit_sec: float | None,
        on_asking: Callable[[int, int, dict[str, Any]], None],
    ) -> int:
        """Ask about this process's share of the slices; the number of questions asked."""
        request = self._request
        began = time.monotonic()
        count, kept = 0, 0
        interrupt = Interrupt()
        with interrupt.listening():
            for done, (k, chunks, path) in enumerate(pending[self._rank :: self._world], start=1):
                is_late = limit_sec is not None and time.monotonic() - began > limit_sec
                if interrupt.is_wanted or is_late:
                    break
                seed = (request.asking.seed, number, k)
                asked = self._slice(prepared, chunks, seed)
                write_part(path, chunks, asked)
                count += len(asked) + sum(asked.refused.values())
                kept += len(asked)
                speed = count * self._world / (time.monotonic() - began)
                figures = {"kept": kept / max(1, count), "rows_per_sec": speed}
                if self._rank == 0:
                    on_asking(min(len(pending), done * self._world), len(pending), figures)
        if interrupt.is_wanted:
            raise AskingInterrupted(request.work)
        return count

    def _slice(self, prepared: PreparedSet, chunks: NDArray[np.int64], seed: tuple[int, ...]) -> Asked:
        try:
            return ask_slice(
                self._asker,
                self._judge,
                prepared,
                chunks,
                self._pieces,
                self._device,
                self._request.asking,
                seed,
                self._dtype,
            )
        except torch.OutOfMemoryError as error:
            raise TrainingError(
                f"the device is out of memory: {str(error).splitlines()[0]}",
                hint="lower --slice-chunks; finished slices of another size are not used",
            ) from error

    def _result(self, found: Asked | None, done: list[int], slices: list[NDArray[np.int64]]) -> dict[str, Any]:
        refused = {} if found is None else found.refused
        kept = 0 if found is None else len(found)
        return {
            "chunks": sum(len(slices[k]) for k in done),
            "chunks_wanted": sum(map(len, slices)),
            "asked": kept + sum(refused.values()),
            "kept": kept,
            "refused": refused,
        }

    def _samples(self, found: Asked) -> list[dict[str, Any]]:
        rng = np.random.default_rng(self._request.asking.seed)
        texts = []
        for k in sorted(rng.permutation(len(found))[:SAMPLES].tolist()):
            prompt, end = int(found.prompt_len[k]), int(found.row_len[k])
            question, answer = self._pieces.decode_all([
                found.questions[k, 1:prompt].tolist(), found.questions[k, prompt : end - 1].tolist()
            ])  # fmt: skip
            question = question.removeprefix("###").removesuffix(" ###Long Answer:")
            likely = round(float(found.probability[k]), 3)
            texts.append({"question": question, "answer": answer, "probability": likely})
        return texts

    def _write(self, folder: Path, columns: Columns) -> None:
        notes = {"asked": asdict(self._request.asking), "of": self._request.about, "plain": self._request.plain}
        try:
            write_columns(folder, columns, notes)
        except OSError as error:
            shutil.rmtree(folder.with_name(f".{folder.name}.{os.getpid()}.tmp"), ignore_errors=True)
            raise StorageError("the set could not be written", given=folder, hint=error.strerror) from error
