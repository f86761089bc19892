"""What every commit unit can do, whatever rows it adds: append records, and note what is to be forgotten."""

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
from jaxtyping import Float32

from precog.errors import EncoderError
from precog.store.database import Database
from precog.store.layout import RecordLayout
from precog.store.record import Location, pack
from precog.store.segment import SegmentWriter

FORGETTING = "forgetting"
SCRUB_PENDING = "scrub_pending"


def forgetting_name(folder_id: str, name: str) -> str:
    """Stands for the name of something that is being forgotten, without saying it."""
    return hashlib.sha256(f"{folder_id} {name}".encode("utf-8", "surrogatepass")).hexdigest()


class Unit:
    """One commit unit; everything in it becomes visible together, or not at all."""

    def __init__(
        self,
        database: Database,
        writer: SegmentWriter,
        layout: RecordLayout,
        *,
        fingerprint: bytes,
        key_dim: int,
        folder_id: str,
    ) -> None:
        self._database = database
        self._writer = writer
        self._layout = layout
        self._fingerprint = fingerprint
        self._dim = key_dim
        self._folder_id = folder_id

    def settle(self) -> None:
        """What is left to be done to the rows before the unit is committed."""

    def note_forgetting(self, names: Iterable[str]) -> None:
        """Writes down, in the step that deletes it, that all traces of something are to be removed.

        Until ``scrub`` has succeeded every writer that opens the folder tries it again; that it was to be forgotten is
        known until ``settle_forgetting``. Of its names only hashes are kept.
        """
        names = sorted({forgetting_name(self._folder_id, name) for name in names})
        known = self._database.get_meta(FORGETTING) or ""
        self._database.set_meta(FORGETTING, f"{known} {','.join(names)}".strip())
        self._database.set_meta(SCRUB_PENDING, "1")

    def _append(
        self,
        token_ids: Sequence[int] | npt.NDArray[np.integer],
        *,
        state: bytes | npt.NDArray[np.generic],
        tau: bytes | npt.NDArray[np.float32],
        suffix_array: npt.NDArray[np.integer] | None,
        refined: bool = False,
    ) -> Location:
        location = self._writer.next_location()
        record = pack(
            self._layout,
            location,
            state=state,
            tau=tau,
            token_ids=token_ids,
            suffix_array=suffix_array,
            fingerprint=self._fingerprint,
            refined=refined,
        )
        self._writer.append(location, record)
        return location

    def _key_bytes(self, keys: Float32[np.ndarray, "n E"], whose: str) -> bytes:
        if keys.shape[1] != self._dim or len(keys) == 0:
            message = "keys of another encoder" if len(keys) else f"{whose} has no key"
            raise EncoderError(message, given=str(keys.shape), expected=f"[windows ≥ 1, {self._dim}]")
        return np.ascontiguousarray(keys, dtype="<f4").tobytes()
