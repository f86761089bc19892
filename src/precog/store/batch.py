"""One commit unit of a writer: documents, chunks, keys and states that become visible together, or not at all."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from jaxtyping import Float32

from precog.errors import CorpusError
from precog.store.catalogue import Catalogue
from precog.store.record import content_hash
from precog.store.rows import ChunkInfo, Document, DocumentInfo
from precog.store.unit import Unit


class Batch(Unit):
    """What ``CorpusStore.batch()`` hands out; it is committed when its ``with`` block ends without an exception."""

    _database: Catalogue

    def settle(self) -> None:
        """Removes the states that no chunk or part reads any more."""
        self._database.delete_unused_states()

    def begin_document(self, info: DocumentInfo) -> Document:
        """Starts a document, or goes on with the one that was interrupted.

        The returned ``num_chunks`` says how many of its chunks are already committed (0 for a new one): an
        interrupted document with the same raw bytes is taken up there, one with other bytes is dropped.
        The version that is already indexed keeps answering until ``finish_document``.
        """
        for unfinished in list(self._database.documents(info.source, "indexing")):
            if unfinished.info.raw_sha256 == info.raw_sha256:
                self._database.update_document(unfinished.id, info, "indexing", None)
                return replace(unfinished, info=info)
            self._database.delete_document(unfinished.id)
        return Document(self._database.add_document(info, "indexing", None), info, "indexing", None, 0)

    def find_state(self, token_ids: Sequence[int] | npt.NDArray[np.integer]) -> int | None:
        """The stored state that has read exactly these tokens, if there is one."""
        return self._database.find_state(content_hash(self._fingerprint, token_ids))

    def add_state(
        self,
        token_ids: Sequence[int] | npt.NDArray[np.integer],
        *,
        state: bytes | npt.NDArray[np.generic],
        tau: bytes | npt.NDArray[np.float32] = b"",
        suffix_array: npt.NDArray[np.integer] | None = None,
        refined: bool = False,
    ) -> int:
        """Stores a state and returns its id; one that has read the same tokens is stored once.

        ``refined`` says that the state is more than reading the tokens gives.

        Raises:
            StateError: a part does not fit the corpus's record layout.
            StorageError: the disk is full or refuses; leave the ``with`` block, nothing acknowledged is lost.
        """
        found = self.find_state(token_ids)
        if found is not None:
            return found
        location = self._append(token_ids, state=state, tau=tau, suffix_array=suffix_array, refined=refined)
        return self._database.add_state(content_hash(self._fingerprint, token_ids), location, len(token_ids))

    def add_unstored_state(self, token_ids: Sequence[int] | npt.NDArray[np.integer]) -> int:
        """Notes a state that is not kept, because a budget made it give way, and returns its id."""
        found = self.find_state(token_ids)
        if found is not None:
            return found
        return self._database.add_unstored_state(content_hash(self._fingerprint, token_ids), len(token_ids))

    def keep_budget(self, budget_bytes: int) -> int:
        """Lets states go until the records of those that are left take no more than that; texts and keys stay.

        Returns:
            How many went.
        """
        return self._database.let_go(budget_bytes // self._layout.record_bytes)

    def add_chunk(self, document_id: int, info: ChunkInfo, *, state_id: int, keys: Float32[np.ndarray, "n E"]) -> int:
        """Adds the next chunk of a document with one key per window, and returns its id.

        Raises:
            EncoderError: the keys have another width than the corpus's.
        """
        return self._database.add_chunk(document_id, info, state_id, len(keys), self._key_bytes(keys, "a chunk"))

    def add_part(
        self, chunk_id: int, ordinal: int, span: tuple[int, int], *, state_id: int, keys: Float32[np.ndarray, "n E"]
    ) -> int:
        """Adds the next part of a chunk, ``span`` of its characters, with its own state and keys; returns its id.

        Raises:
            EncoderError: the keys have another width than the corpus's.
        """
        return self._database.add_part(
            chunk_id, ordinal, span, state_id, len(keys), self._key_bytes(keys, "a part of a chunk")
        )

    def finish_document(self, document_id: int, info: DocumentInfo | None = None) -> None:
        """Makes a document visible, in place of the version that was indexed before."""
        document = self._known(document_id)
        info = info or document.info
        self._drop_settled(info.source, keep=document_id)
        self._database.update_document(document_id, info, "indexed", None)

    def fail_document(self, info: DocumentInfo, reason: str) -> int:
        """Records why a document yields nothing; what an earlier version said is forgotten."""
        for unfinished in list(self._database.documents(info.source, "indexing")):
            self._database.delete_document(unfinished.id)
        self._drop_settled(info.source)
        return self._database.add_document(info, "failed", reason)

    def delete_document(self, document_id: int) -> None:
        """Removes a document with its chunks, keys, and the states that nothing else has read."""
        self._known(document_id)
        self._database.delete_document(document_id)

    def _known(self, document_id: int) -> Document:
        document = self._database.document(document_id)
        if document is None:
            raise CorpusError("there is no such document", given=document_id)
        return document

    def _drop_settled(self, source: str, keep: int | None = None) -> None:
        for document in list(self._database.documents(source)):
            if document.status != "indexing" and document.id != keep:
                self._database.delete_document(document.id)
