"""What a memory has made of its deposits: semantic states, prototypes, and groupings that emerged."""

from collections.abc import Iterator, Sequence

from precog.errors import DamagedCorpusError
from precog.store.database import Database
from precog.store.memory.row_builder import (
    emergent_of,
    emergent_row,
    prototypes_of,
    prototypes_row,
    semantic_of,
    semantic_row,
)
from precog.store.memory.rows import Emergent, Group, Semantic, StoredPrototypes
from precog.store.row_builder import to_sql

_SEMANTIC = "SELECT domain, subcluster, alpha, num_deposits, last_deposit_id, num_tokens, recurrent, decay_time, seal"
_EMERGENT = "SELECT name, domain, members, promoted, details, seal FROM emergent"


class DerivedRows(Database):
    """Statements about what was derived."""

    def semantic(self, domain: str, subcluster: str) -> Semantic | None:
        """The semantic state of a sub-cluster: one indexed row.

        Raises:
            DamagedCorpusError: it is not what was written.
        """
        sql = f"{_SEMANTIC} FROM semantic WHERE domain = ? AND subcluster = ?"
        row = self._one(sql, (to_sql(domain), to_sql(subcluster)))
        return None if row is None else semantic_of(row)

    def checked_semantic(self) -> Iterator[Semantic | DamagedCorpusError]:
        """Every semantic state, a damaged one as the error that names it."""
        for (number,) in self._all("SELECT rowid FROM semantic ORDER BY domain, subcluster"):
            row = self._one(f"{_SEMANTIC} FROM semantic WHERE rowid = ?", (number,))
            try:
                if row is not None:
                    yield semantic_of(row)
            except DamagedCorpusError as error:
                yield error

    def put_semantic(self, semantic: Semantic) -> None:
        """Replaces the semantic state of a sub-cluster."""
        self.delete_semantic(semantic.group)
        self._run("INSERT INTO semantic VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", semantic_row(semantic))

    def delete_semantic(self, group: Group) -> None:
        """Removes the semantic state of a sub-cluster."""
        self._run("DELETE FROM semantic WHERE domain = ? AND subcluster = ?", tuple(map(to_sql, group)))

    def semantic_groups(self) -> set[Group]:
        """The sub-clusters that have a semantic state."""
        return {(str(row[0]), str(row[1])) for row in self._all("SELECT domain, subcluster FROM semantic")}

    def delete_all_semantic(self) -> None:
        """Removes every semantic state."""
        self._run("DELETE FROM semantic")

    def has_prototypes(self) -> bool:
        """Whether there is a row of prototypes."""
        return self._one("SELECT id FROM prototypes WHERE id = 1") is not None

    def prototypes(self) -> StoredPrototypes | None:
        """The prototypes.

        Raises:
            DamagedCorpusError: they are not what was written.
        """
        row = self._one("SELECT text, members, seal FROM prototypes WHERE id = 1")
        return None if row is None else prototypes_of(row)

    def put_prototypes(self, prototypes: StoredPrototypes) -> None:
        """Replaces the prototypes."""
        self.delete_prototypes()
        self._run("INSERT INTO prototypes VALUES (1, ?, ?, ?)", prototypes_row(prototypes))

    def delete_prototypes(self) -> None:
        """Removes the prototypes."""
        self._run("DELETE FROM prototypes")

    def drop_prototypes_of(self, deposit_ids: Sequence[int]) -> bool:
        """Removes the prototypes if one was fitted on one of these deposits, or nobody can tell."""
        try:
            found = self.prototypes()
            if found is None or not {member for ids in found.members for member in ids}.intersection(deposit_ids):
                return False
        except DamagedCorpusError:
            pass
        self.delete_prototypes()
        return True

    def checked_emergent(self) -> Iterator[Emergent | DamagedCorpusError]:
        """The groupings by name, a damaged one as the error that names it."""
        for row in self._all(f"{_EMERGENT} ORDER BY name"):
            try:
                yield emergent_of(row)
            except DamagedCorpusError as error:
                yield error

    def put_emergent(self, emergent: Emergent) -> None:
        """Replaces the grouping of that name."""
        self.delete_emergent(emergent.name)
        self._run("INSERT INTO emergent VALUES (?, ?, ?, ?, ?, ?)", emergent_row(emergent))

    def delete_emergent(self, name: str) -> None:
        """Removes a grouping."""
        self._run("DELETE FROM emergent WHERE name = ?", (to_sql(name),))

    def drop_emergent_of(self, deposit_ids: Sequence[int]) -> list[str]:
        """Takes deposits out of all groupings and returns the names of those that changed; damaged ones go."""
        gone, changed = set(deposit_ids), []
        for row in self._all(_EMERGENT):
            try:
                found = emergent_of(row)
            except DamagedCorpusError:
                self._run("DELETE FROM emergent WHERE name IS ?", (row[0],))
                changed.append(str(row[0]))
                continue
            left = tuple(member for member in found.members if member not in gone)
            if len(left) == len(found.members):
                continue
            changed.append(found.name)
            if left:
                self.put_emergent(Emergent(found.name, found.domain, left, found.promoted, found.details))
            else:
                self.delete_emergent(found.name)
        return changed
