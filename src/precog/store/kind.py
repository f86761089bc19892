"""What a folder of this program can be: a corpus, or a user's memory; the laws of both are the same."""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from precog.store.migrations import APPLICATION_ID, MIGRATIONS
from precog.store.remedy import CATALOGUE_ANEW, keys_anew, states_anew


@dataclass(frozen=True)
class FolderKind:
    """In what the two differ below the rows of their catalogues.

    Attributes:
        name: in the marker, and in every message.
        application_id: in the header of the catalogue.
        migrations: steps that make the tables of the catalogue.
        content: the table without a row of which such a folder holds nothing.
        how_to_make: hint for somebody who names a folder that is none.
        catalogue_anew: hint for a catalogue that is damaged.
        states_anew: hint for states that are damaged, given the folder.
        keys_anew: hint for keys that are damaged, given the folder.
    """

    name: str
    application_id: int
    migrations: tuple[Callable[[sqlite3.Connection], None], ...]
    content: str
    how_to_make: str
    catalogue_anew: str
    states_anew: Callable[[Path], str]
    keys_anew: Callable[[Path], str]

    @property
    def id_key(self) -> str:
        """Under which the catalogue keeps the id of its folder."""
        return f"{self.name}_id"


CORPUS = FolderKind(
    name="corpus",
    application_id=APPLICATION_ID,
    migrations=MIGRATIONS,
    content="documents",
    how_to_make="make one with `precog index PATH… --corpus DIR`",
    catalogue_anew=CATALOGUE_ANEW,
    states_anew=states_anew,
    keys_anew=keys_anew,
)
