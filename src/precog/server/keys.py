"""API keys: who may ask, for what, and until when; the secrets themselves are kept nowhere.

A key is ``pk-<id>-<secret>``. ``keys.json`` in the data folder (0600) has, for each, the id, a salt, the SHA-256 of
salt and secret, the user, the scopes and the end. One hash is enough, and scrypt or its like would only make every
request slow: those protect what people choose, which can be guessed; a secret of 256 random bits cannot, however fast
the guesses are.

A server without the file is open to its own machine. With the file it needs keys, even when none is left in it.
"""

import base64
import hashlib
import hmac
import json
import re
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from precog.errors import AccessError, MissingError, StorageError
from precog.server.lock import locked
from precog.server.principal import SCOPES, Principal
from precog.store.failure import guarded
from precog.store.folder import make_folder, write_atomically

KEYS_FILE = "keys.json"
_LOCK = "keys.lock"
_FORMAT = 1
_LOOK_SEC = 1.0
_SECRET_BYTES = 32
_HINT = "send it as `Authorization: Bearer pk-…`; `precog keys create` makes one"
_ANOTHER = "ask for another one; `precog keys create` makes it"
_HEX = re.compile("[0-9a-f]+")


@dataclass(frozen=True)
class Key:
    """One key, without its secret.

    Attributes:
        id: public, 12 hex digits.
        salt: 32 hex digits.
        sha256: hex digest of salt and secret.
        user: whose corpora, memories and responses it opens.
        scopes: subset of `SCOPES`.
        created: seconds since 1970.
        expires: seconds since 1970 from which it is refused; None for never.
        note: for people.
        requests_per_minute: its own limit; None for the server's.
    """

    id: str
    salt: str = field(repr=False)
    sha256: str = field(repr=False)
    user: str
    scopes: tuple[str, ...]
    created: float
    expires: float | None = None
    note: str = ""
    requests_per_minute: int | None = None

    @property
    def principal(self) -> Principal:
        """Whoever asks with it."""
        return Principal(self.user, frozenset(self.scopes), self.id)


def _digest(salt: str, secret: str) -> str:
    return hashlib.sha256(bytes.fromhex(salt) + secret.encode("utf-8", "surrogatepass")).hexdigest()


_NOBODY = Key("", "0" * 32, "0" * 64, "", (), 0.0)
"""What an unknown id is compared with, so that it takes as long as a known one."""


class KeyRing:
    """The keys of a data folder; changes that other processes make are taken up within a second.

    Args:
        folder: of the server's data.
        clock: seconds since 1970.

    Raises:
        StorageError: the file of keys is damaged or cannot be read.
    """

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._path, self._clock = folder / KEYS_FILE, clock
        self._lock = threading.Lock()
        self._seen: tuple[int, ...] | None = None
        self._looked_at = -_LOOK_SEC
        self._keys: dict[str, Key] = {}
        self._is_needed = False
        self._refresh()

    @property
    def is_needed(self) -> bool:
        """Whether a request needs a key: since there was a file of them.

        Raises:
            StorageError: the file is damaged now: nobody comes in until it is mended.
        """
        self._refresh()
        return self._is_needed

    @property
    def keys(self) -> tuple[Key, ...]:
        """All keys, the oldest first."""
        self._refresh()
        return tuple(sorted(self._keys.values(), key=lambda key: (key.created, key.id)))

    @property
    def usable(self) -> tuple[Key, ...]:
        """Those that have not expired."""
        return tuple(key for key in self.keys if key.expires is None or key.expires > self._clock())

    def find(self, token: str) -> Key:
        """The key that a request shows.

        Raises:
            AccessError: it is none, or has expired.
            StorageError: the file of keys is damaged.
        """
        self._refresh()
        kind, _, rest = token.partition("-")
        key_id, _, secret = rest.partition("-")
        known = self._keys.get(key_id)
        key = _NOBODY if known is None else known
        is_right = hmac.compare_digest(_digest(key.salt, secret), key.sha256)
        if kind != "pk" or known is None or not is_right:
            raise AccessError("this is no key of this server", hint=_HINT)
        self._check_end(key)
        return key

    def check(self, key_id: str) -> None:
        """Refuses to go on with what a key has begun once it is none any more.

        Raises:
            AccessError: it was revoked, or has expired.
            StorageError: the file of keys is damaged.
        """
        self._refresh()
        key = self._keys.get(key_id)
        if key is None:
            raise AccessError("this key has been revoked", hint=_ANOTHER)
        self._check_end(key)

    def _check_end(self, key: Key) -> None:
        if key.expires is not None and key.expires <= self._clock():
            raise AccessError("this key has expired", hint=_ANOTHER)

    def create(
        self,
        user: str,
        scopes: tuple[str, ...],
        *,
        expires: float | None = None,
        note: str = "",
        requests_per_minute: int | None = None,
    ) -> tuple[Key, str]:
        """A new key, and the text of it, which is not kept.

        Raises:
            StorageError: the disk refuses, or the file of keys is damaged.
        """
        secret = base64.urlsafe_b64encode(secrets.token_bytes(_SECRET_BYTES)).decode().rstrip("=")
        salt = secrets.token_hex(16)
        made = Key(
            secrets.token_hex(6), salt, _digest(salt, secret), user, scopes, self._clock(), expires, note,
            requests_per_minute,
        )  # fmt: skip
        with guarded(self._path.parent):
            make_folder(self._path.parent)
        with locked(self._path.parent / _LOCK):
            self._write({**self._read(), made.id: made})
        return made, f"pk-{made.id}-{secret}"

    def revoke(self, key_id: str) -> Key:
        """Removes a key; whoever has it does not come in any more.

        Raises:
            MissingError: there is no such key.
            StorageError: the disk refuses, or the file of keys is damaged.
        """
        missing = MissingError("there is no such key", given=key_id[:80], hint="`precog keys list` names them")
        if not self._path.exists():
            raise missing
        with locked(self._path.parent / _LOCK):
            keys = self._read()
            if key_id not in keys:
                raise missing
            revoked = keys.pop(key_id)
            self._write(keys)
        return revoked

    def _write(self, keys: dict[str, Key]) -> None:
        text = json.dumps({"precog_keys": _FORMAT, "keys": [asdict(key) for key in keys.values()]}, indent=1)
        write_atomically(self._path, text.encode() + b"\n")
        with self._lock:
            self._looked_at = -_LOOK_SEC

    def _refresh(self) -> None:
        with self._lock:
            now = time.monotonic()
            if now - self._looked_at < _LOOK_SEC:
                return
            seen = self._stat()
            if seen != self._seen:
                self._keys = {}  # what follows may fail: until it is mended, no key is one
                self._is_needed = self._is_needed or seen is not None
                self._keys = self._read()
                self._seen = seen
            self._looked_at = now

    def _stat(self) -> tuple[int, ...] | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _unreadable(self._path, error.strerror or str(error)) from error
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _read(self) -> dict[str, Key]:
        try:
            found = json.loads(self._path.read_bytes())
            if found["precog_keys"] != _FORMAT:
                raise ValueError("it is of another version")
            keys = [_key_of(entry) for entry in found["keys"]]
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise _unreadable(self._path, error.strerror or str(error)) from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise _unreadable(self._path, "it is not what `precog keys` writes") from error
        return {key.id: key for key in keys}


def _key_of(entry: dict[str, object]) -> Key:
    """A key as it was written, if every part of it can be one.

    Raises:
        ValueError: some cannot.
    """
    texts = [entry[name] for name in ("id", "salt", "sha256", "user", "note")]
    numbers = [entry[name] for name in ("created", "expires", "requests_per_minute")]
    scopes = entry["scopes"]
    is_sound = (
        set(entry) == {field.name for field in fields(Key)}
        and all(isinstance(text, str) for text in texts)
        and all(isinstance(text, str) and _HEX.fullmatch(text) for text in texts[:3])
        and all(number is None or (type(number) in (int, float) and float(str(number)) >= 0) for number in numbers)
        and isinstance(scopes, list)
        and set(scopes) <= set(SCOPES)
        and (len(str(entry["salt"])), len(str(entry["sha256"])), bool(str(entry["user"]).strip())) == (32, 64, True)
    )
    if not is_sound or numbers[0] is None:
        raise ValueError("a key is damaged")
    return Key(**{**entry, "scopes": tuple(scopes)})  # type: ignore[arg-type]  # as was just looked at


def _unreadable(path: Path, reason: str) -> StorageError:
    hint = "put it back from a backup; removing it revokes every key, and opens the server to this machine"
    return StorageError("the file of keys cannot be used", given=f"{path} ({reason})", hint=hint)
