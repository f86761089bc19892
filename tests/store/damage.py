"""Changes rows of a catalogue behind the store's back."""

import contextlib
import sqlite3
from pathlib import Path


def change(path: Path, *statements: str) -> None:
    with contextlib.closing(sqlite3.connect(path / "000001/catalogue.sqlite")) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
