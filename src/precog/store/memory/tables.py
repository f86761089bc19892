"""The tables of a memory's catalogue, as a numbered list of steps; see ``docs/format.md``."""

import sqlite3

from precog.store.folder import MarkedFolder
from precog.store.kind import FolderKind

STATES_ANEW = "make every state anew from the stored text: `precog memory reindex --user USER`"
KEYS_ANEW = "make every key anew from the stored text: `precog memory reindex --user USER`"

PROTOTYPES_ANEW = "go back to those of the seeds: `precog memory fit --seeds --user USER`; then fit again, if you had"
FORGET = "forget it (`precog memory forget --id ID --user USER`), or restore a backup"


def _m001_first_tables(connection: sqlite3.Connection) -> None:
    for statement in (
        "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
        "CREATE TABLE segments (number INTEGER PRIMARY KEY, num_records INTEGER NOT NULL)",
        """CREATE TABLE deposits (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            uid BLOB NOT NULL UNIQUE,
            text NOT NULL,
            header NOT NULL,
            key_text NOT NULL,
            details TEXT NOT NULL,
            time_iso TEXT,
            time_utc REAL,
            speaker,
            place,
            reference,
            domain NOT NULL,
            subcluster NOT NULL,
            probability REAL NOT NULL,
            importance REAL NOT NULL,
            num_tokens INTEGER NOT NULL,
            num_accesses INTEGER NOT NULL,
            accessed_at REAL NOT NULL,
            superseded_by INTEGER,
            superseded_at REAL,
            created_at REAL NOT NULL,
            seal BLOB NOT NULL,
            num_states INTEGER NOT NULL DEFAULT 0
        )""",
        "CREATE INDEX deposits_by_group ON deposits (domain, subcluster, id, superseded_by)",
        "CREATE INDEX deposits_by_time ON deposits (time_utc) WHERE time_utc IS NOT NULL",
        "CREATE INDEX deposits_by_speaker ON deposits (speaker) WHERE speaker IS NOT NULL",
        "CREATE INDEX deposits_superseded ON deposits (superseded_by) WHERE superseded_by IS NOT NULL",
        "CREATE INDEX deposits_by_use ON deposits (accessed_at, id) WHERE num_states > 0",
        """CREATE TABLE keys (
            deposit_id INTEGER PRIMARY KEY REFERENCES deposits (id) ON DELETE CASCADE,
            num_windows INTEGER NOT NULL,
            vectors BLOB NOT NULL,
            seal BLOB NOT NULL
        )""",
        """CREATE TABLE states (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            deposit_id INTEGER NOT NULL REFERENCES deposits (id) ON DELETE CASCADE,
            position INTEGER NOT NULL,
            content_hash BLOB NOT NULL,
            segment INTEGER NOT NULL REFERENCES segments (number) DEFERRABLE INITIALLY DEFERRED,
            slot INTEGER NOT NULL,
            seal BLOB NOT NULL,
            UNIQUE (deposit_id, position),
            UNIQUE (segment, slot)
        )""",
        # records that no row names any more and whose bytes may still be in their segment file
        "CREATE TABLE tombstones (segment INTEGER, slot INTEGER, PRIMARY KEY (segment, slot)) WITHOUT ROWID",
        """CREATE TABLE semantic (
            domain NOT NULL,
            subcluster NOT NULL,
            alpha REAL NOT NULL,
            num_deposits INTEGER NOT NULL,
            last_deposit_id INTEGER NOT NULL,
            num_tokens INTEGER NOT NULL,
            recurrent BLOB NOT NULL,
            decay_time BLOB NOT NULL,
            seal BLOB NOT NULL,
            PRIMARY KEY (domain, subcluster)
        )""",
        """CREATE TABLE prototypes (
            id INTEGER PRIMARY KEY CHECK (id = 1),
            text NOT NULL,
            members TEXT NOT NULL,
            seal BLOB NOT NULL
        )""",
        """CREATE TABLE emergent (
            name PRIMARY KEY NOT NULL,
            domain NOT NULL,
            members TEXT NOT NULL,
            promoted INTEGER NOT NULL,
            details TEXT NOT NULL,
            seal BLOB NOT NULL
        )""",
        # kept by triggers, so that a session starts without counting anything
        """CREATE TABLE groups (
            domain NOT NULL,
            subcluster NOT NULL,
            num_deposits INTEGER NOT NULL,
            num_tokens INTEGER NOT NULL,
            PRIMARY KEY (domain, subcluster)
        ) WITHOUT ROWID""",
        f"CREATE TRIGGER deposit_added AFTER INSERT ON deposits BEGIN {_counted('new')} END",
        f"CREATE TRIGGER deposit_deleted AFTER DELETE ON deposits BEGIN {_uncounted('old')} END",
        f"""CREATE TRIGGER deposit_moved AFTER UPDATE OF domain, subcluster ON deposits
            WHEN old.domain IS NOT new.domain OR old.subcluster IS NOT new.subcluster
            BEGIN {_counted("new")} {_uncounted("old")} END""",
        """CREATE TRIGGER state_added AFTER INSERT ON states BEGIN
            UPDATE deposits SET num_states = num_states + 1 WHERE id = new.deposit_id;
        END""",
        """CREATE TRIGGER state_deleted AFTER DELETE ON states BEGIN
            UPDATE deposits SET num_states = num_states - 1 WHERE id = old.deposit_id;
            INSERT INTO tombstones VALUES (old.segment, old.slot);
        END""",
    ):
        connection.execute(statement)


def _counted(row: str) -> str:
    return f"""INSERT INTO groups VALUES ({row}.domain, {row}.subcluster, 1, {row}.num_tokens)
        ON CONFLICT (domain, subcluster) DO UPDATE
        SET num_deposits = num_deposits + 1, num_tokens = num_tokens + excluded.num_tokens;"""


def _uncounted(row: str) -> str:
    where = f"WHERE domain = {row}.domain AND subcluster = {row}.subcluster"
    return f"""UPDATE groups SET num_deposits = num_deposits - 1, num_tokens = num_tokens - {row}.num_tokens {where};
        DELETE FROM groups {where} AND num_deposits = 0;"""


MEMORY = FolderKind(
    name="memory",
    application_id=0x5052454D,  # "PREM"
    migrations=(_m001_first_tables,),
    content="deposits",
    how_to_make="make one with `precog memory remember TEXT --user USER`",
    catalogue_anew="restore it from a backup",
    states_anew=lambda _: STATES_ANEW,
    keys_anew=lambda _: KEYS_ANEW,
)


class MemoryFolder(MarkedFolder):
    """The folder of a memory."""

    KIND = MEMORY
