"""Backups that are taken while others write, and what becomes of them."""

import gzip
import hashlib
import io
import json
import os
import sqlite3
import stat
import tarfile
import threading
from pathlib import Path

import corpora
import memories
import pytest
import zstandard

from precog.cli.main import main
from precog.errors import CorpusError, InputError, MissingError, PrecogError, StorageError, UsageError
from precog.memory.place import memory_folder
from precog.server import archive, data_folder
from precog.server.backup import back_up
from precog.server.restore import restore
from precog.server.tenant import folder_name
from precog.store import CorpusStore
from precog.store.memory import MemoryStore


class Place:
    """A data folder and a home folder with the things of two users."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home, self.data = folder / "home", folder / "home" / "server"

    def corpus(self, user: str = "ana", name: str = "papers") -> Path:
        return self.data / "users" / folder_name(user) / "corpora" / name

    def responses(self, user: str) -> Path:
        return self.data / "users" / folder_name(user) / "responses" / "responses.sqlite"

    def fill(self) -> "Place":
        self.data.mkdir(parents=True, mode=0o700)
        data_folder.mark(self.data)
        (self.data / "keys.json").write_text('{"keys": []}')
        for user in ("ana", "ben"):
            with corpora.create(self.corpus(user)) as store:
                corpora.fill(store)
            with memories.create(memory_folder(self.home, user)) as memory:
                memories.fill(memory, range(40, 44))
            (self.corpus(user) / "000001" / "dense.index").write_bytes(b"can be made anew")
            self.responses(user).parent.mkdir()
            connection = sqlite3.connect(self.responses(user))
            connection.execute("CREATE TABLE responses (text)")
            connection.execute("INSERT INTO responses VALUES (?)", (f"an answer for {user}",))
            connection.commit()
            connection.close()
        return self

    def back_up(self, name: str = "b.tar.zst", **options: object) -> Path:
        out = self.folder / name
        back_up(out, data=self.data, home=self.home, **options)  # type: ignore[arg-type]
        return out


def restored(backup: Path, folder: Path) -> Place:
    place = Place(folder)
    restore(backup, data=place.data, home=place.home)
    return place


def checksum(path: Path) -> str:
    with CorpusStore.open(path) as store:
        return store.checksum()


def texts(path: Path) -> list[str]:
    with MemoryStore.open(path) as memory:
        return [entry.info.text for entry in memory.deposits()]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "one").fill()


def unpacked(backup: Path) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader(backup.read_bytes()).read()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("name", ["b.tar.zst", "b.tar.gz"])
def test_a_backup_makes_the_same_folders_again(place: Place, tmp_path: Path, name: str) -> None:
    backup = place.back_up(name)
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert backup.read_bytes()[:2] == (b"\x1f\x8b" if name.endswith("gz") else b"\x28\xb5")
    other = restored(backup, tmp_path / "two")
    for user in ("ana", "ben"):
        assert checksum(other.corpus(user)) == checksum(place.corpus(user))
        assert texts(memory_folder(other.home, user)) == texts(memory_folder(place.home, user))
        assert not (other.corpus(user) / "000001" / "dense.index").exists()
        connection = sqlite3.connect(other.responses(user))
        assert connection.execute("SELECT text FROM responses").fetchall() == [(f"an answer for {user}",)]
        connection.close()
        with CorpusStore.open(other.corpus(user), write=True) as store:
            corpora.fill(store, 5)
    assert (other.data / "keys.json").read_text() == '{"keys": []}'
    assert data_folder.format_of(other.data) == len(data_folder.MIGRATIONS)
    for path in other.folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path
    assert names_in(tmp_path / "two") == ["home"]
    assert names_in(other.home) == ["memory", "server"]
    assert names_in(place.folder) == sorted([name, "home"])


def test_the_backup_of_one_user_goes_beside_others(place: Place, tmp_path: Path) -> None:
    backup = place.back_up(user="ana")
    assert b"an answer for ben" not in unpacked(backup)
    assert b'{"keys": []}' not in unpacked(backup)
    other = Place(tmp_path / "two")
    with corpora.create(other.corpus("cleo")) as store:
        corpora.fill(store, 1)
    data_folder.mark(other.data)
    restored(backup, tmp_path / "two")
    assert checksum(other.corpus("ana")) == checksum(place.corpus("ana"))
    assert texts(memory_folder(other.home, "ana")) == texts(memory_folder(place.home, "ana"))
    assert not other.corpus("ben").exists()
    with pytest.raises(StorageError, match="there already"):
        restored(backup, tmp_path / "two")


def test_what_was_forgotten_before_is_not_in_it(place: Place) -> None:
    with CorpusStore.open(place.corpus(), write=True) as store:
        (gone,) = store.find_documents("doc1.txt")
        with store.batch() as batch:
            batch.delete_document(gone.id)
        store.scrub()
    with MemoryStore.open(memory_folder(place.home, "ana"), write=True) as memory:
        with memory.batch() as memory_batch:
            memory_batch.delete_deposits([3])
        memory.scrub()
    needles = [corpora.text_of("doc1.txt", seed).encode() for seed in (3, 4, 5)]
    needles += [corpora.parts_of(seed)["state"].tobytes()[:64] for seed in (3, 4, 5)] + memories.said_by(42)
    found = unpacked(place.back_up(user="ana"))
    assert not [needle for needle in needles if needle in found]
    assert corpora.text_of("doc0.txt", 0).encode() in found
    assert memories.said_by(41)[0] in found


def test_what_was_not_yet_erased_is_not_in_it(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill came between the commit that forgets and the erasing."""
    with CorpusStore.open(place.corpus(), write=True) as store, monkeypatch.context() as patch:
        patch.setattr(CorpusStore, "_erase_tombstones", lambda self: None)
        with store.batch() as batch:
            batch.delete_document(1)
    state = corpora.parts_of(0)["state"].tobytes()
    assert state in (place.corpus() / "000001" / "segments" / "000000.seg").read_bytes()
    assert state not in unpacked(place.back_up(user="ana"))


def test_everything_acknowledged_before_the_start_is_in_a_backup_under_heavy_writing(
    place: Place, tmp_path: Path
) -> None:
    stop, started = threading.Event(), threading.Event()
    acknowledged: list[str] = []
    failures: list[BaseException] = []

    def write() -> None:
        number = 100
        try:
            with CorpusStore.open(place.corpus(), write=True) as store:
                while not stop.is_set():
                    source = f"doc{number}.txt"
                    with store.batch() as batch:
                        corpora.add_document(batch, source, [number, number + 1])
                    acknowledged.append(source)
                    if number % 6 == 0 and len(acknowledged) > 4:
                        (old,) = store.find_documents(acknowledged[-4])
                        with store.batch() as batch:
                            batch.delete_document(old.id)
                        acknowledged.remove(old.info.source)
                    if number % 30 == 0:
                        store.compact()
                    number += 2
                    if len(acknowledged) > 12:
                        started.set()
        except BaseException as error:
            failures.append(error)
            started.set()

    writer = threading.Thread(target=write)
    writer.start()
    assert started.wait(300)
    taken = []
    for number in range(4):
        before = set(acknowledged[:-6])  # the last ones may be forgotten meanwhile
        taken.append((before, place.back_up(f"b{number}.tar.zst", user="ana")))
    stop.set()
    writer.join(300)
    assert not failures
    for number, (before, backup) in enumerate(taken):
        other = restored(backup, tmp_path / f"r{number}")
        with CorpusStore.open(other.corpus(), write=True) as store:
            sources = {document.info.source for document in store.documents()}
            assert list(store.complaints()) == []
            for _, record in store.iter_records():
                assert not isinstance(record, PrecogError)
        assert before <= sources | {"doc0.txt"}


def test_an_upload_that_is_ingested_meanwhile_is_in_it(place: Place, tmp_path: Path) -> None:
    """Jobs are copied before corpora: what leaves the one while it is copied has come into the other."""
    jobs = place.corpus().parents[1] / "jobs" / "job_1"
    jobs.mkdir(parents=True)
    (jobs / "job.json").write_text("{}")
    (jobs / "0").write_text("the text of an upload")
    ingested = []

    def ingest(done: int, total: int) -> None:
        if not ingested and done > (jobs / "job.json").stat().st_size:
            ingested.append(done)
            with CorpusStore.open(place.corpus(), write=True) as store, store.batch() as batch:
                corpora.add_document(batch, "upload.txt", [77])

    other = restored(place.back_up(user="ana", on_bytes=ingest), tmp_path / "two")
    with CorpusStore.open(other.corpus()) as store:
        assert "upload.txt" in {document.info.source for document in store.documents()}
    assert (other.corpus().parents[1] / "jobs" / "job_1" / "0").read_text() == "the text of an upload"


def test_an_interrupted_backup_leaves_nothing_and_keeps_the_old_one(place: Place) -> None:
    (place.folder / "a.tar.zst").write_bytes(b"an older backup")

    def interrupt(done: int, total: int) -> None:
        assert 0 < done <= total
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        place.back_up(on_bytes=interrupt)
    assert names_in(place.folder) == ["a.tar.zst", "home"]
    assert (place.folder / "a.tar.zst").read_bytes() == b"an older backup"


def test_a_backup_takes_the_place_of_nothing(place: Place) -> None:
    (place.folder / "b.tar.zst").write_bytes(b"an older backup")
    with pytest.raises(UsageError, match="such a file already"):
        place.back_up()
    assert (place.folder / "b.tar.zst").read_bytes() == b"an older backup"


@pytest.mark.parametrize("name", ["b.zip", "b", "b.tar", "b.zst", "tar.gz"])
def test_a_backup_says_by_its_name_what_it_is(place: Place, name: str) -> None:
    with pytest.raises(UsageError, match=r"\.tar\.zst or \.tar\.gz"):
        place.back_up(name)
    assert names_in(place.folder) == ["home"]


def test_an_interrupted_restore_leaves_nothing(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backup = place.back_up()
    calls = []

    def interrupt(done: int, total: int) -> None:
        calls.append(done)
        if len(calls) == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(backup, data=tmp_path / "two" / "server", home=tmp_path / "two", on_bytes=interrupt)
    assert not (tmp_path / "two").exists()
    real = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if Path(target) == tmp_path / "two" / "server":
            raise OSError(28, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(StorageError):
        restore(backup, data=tmp_path / "two" / "server", home=tmp_path / "two")
    assert [path for path in tmp_path.joinpath("two").rglob("*") if path.is_file()] == []
    monkeypatch.undo()
    restored(backup, tmp_path / "two")


def test_nothing_is_overwritten(place: Place, tmp_path: Path) -> None:
    backup = place.back_up()
    other = Place(tmp_path / "two")
    other.data.mkdir(parents=True)
    (other.data / "a file").write_text("of somebody")
    with pytest.raises(StorageError, match="there already"):
        restored(backup, tmp_path / "two")
    assert names_in(other.home) == ["server"]
    (other.data / "a file").unlink()  # an empty folder is no harm
    memory_folder(other.home, "ben").mkdir(parents=True)
    (memory_folder(other.home, "ben") / "a file").write_text("of somebody")
    with pytest.raises(StorageError, match="there already"):
        restored(backup, tmp_path / "two")
    assert names_in(other.home / "memory") == [memory_folder(other.home, "ben").name]
    assert names_in(other.data) == []


def test_a_damaged_or_truncated_backup_is_refused(place: Place, tmp_path: Path) -> None:
    backup = place.back_up(user="ana")
    data = backup.read_bytes()
    broken = tmp_path / "broken"
    spoilt = [data[:size] for size in (0, 3, 20, len(data) // 3, len(data) // 2, len(data) - 20)]
    places = range(40, len(data), len(data) // 23)  # before it, some bits change nothing
    spoilt += [data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :] for at in places]
    for number, content in enumerate(spoilt):
        broken.write_bytes(content)
        with pytest.raises(InputError) as refused:
            restored(broken, tmp_path / "two")
        assert "\n" not in str(refused.value), number
        assert not (tmp_path / "two").exists(), number


def test_every_cut_of_the_tar_itself_is_noticed(place: Place, tmp_path: Path) -> None:
    """Packed again, so that no checksum of the compression helps."""
    data = unpacked(place.back_up(user="ana"))
    end = data.rindex(b"manifest.sha256") + tarfile.BLOCKSIZE + 64  # only zeros follow
    for size in [*range(0, end - 1, end // 17), end - 1]:
        (tmp_path / "cut").write_bytes(gzip.compress(data[:size], 1))
        with pytest.raises(InputError):
            restored(tmp_path / "cut", tmp_path / "two")
    assert not (tmp_path / "two").exists()


def packed(path: Path, *entries: tuple[str, bytes], **info: object) -> Path:
    """An archive of somebody else; the last entry has these fields."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        head = tarfile.TarInfo("backup.json")
        text = json.dumps({"backup": "precog", "format": 1}).encode()
        head.size = len(text)
        tar.addfile(head, io.BytesIO(text))
        for number, (name, data) in enumerate(entries, 1):
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            if number == len(entries):
                for key, value in info.items():
                    setattr(entry, key, value)
            tar.addfile(entry, io.BytesIO(data))
    path.write_bytes(gzip.compress(content.getvalue(), 1))
    return path


@pytest.mark.parametrize(
    ("name", "info"),
    [
        ("../outside", {}),
        ("/tmp/outside", {}),
        ("data/../../outside", {}),
        ("data/0001/segments/../../outside", {}),
        ("data/0001", {"type": tarfile.SYMTYPE, "linkname": "/etc"}),
        ("data/0001", {"type": tarfile.LNKTYPE, "linkname": "backup.json"}),
        ("data/0001", {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}),
        ("data/0001", {"type": tarfile.FIFOTYPE}),
        ("data/0001", {"type": tarfile.DIRTYPE}),
        ("users/x", {}),
    ],
)
def test_names_that_lead_elsewhere_are_refused(tmp_path: Path, name: str, info: dict[str, object]) -> None:
    backup = packed(tmp_path / "b", (name, b""), **info)
    with pytest.raises(InputError, match="no backup holds"):
        restored(backup, tmp_path / "two")
    assert names_in(tmp_path) == ["b"]


def manifested(path: Path, parts: list[object], **changed: object) -> Path:
    data = b"content"
    entries = {"data/0001": {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}}
    files = [{"entry": "data/0001", "path": parts}]
    said = {"format": 1, "made_at": "now", "is_whole": True, "folders": [], "files": files, "entries": entries}
    manifest = json.dumps({**said, **changed}).encode()
    seal = hashlib.sha256(manifest).hexdigest().encode()
    return packed(path, ("data/0001", data), ("manifest.json", manifest), ("manifest.sha256", seal))


@pytest.mark.parametrize("parts", [["..", "x"], [], ["/etc/x"], ["a", ""], ["a", "."], [1], ["a\0"], "ab", None])
def test_paths_of_a_manifest_that_lead_elsewhere_are_refused(tmp_path: Path, parts: list[object]) -> None:
    with pytest.raises(InputError):
        restored(manifested(tmp_path / "b", parts), tmp_path / "two")
    assert names_in(tmp_path) == ["b"]


def test_a_manifest_that_says_something_else_is_refused(tmp_path: Path) -> None:
    assert (restored(manifested(tmp_path / "b", ["users", "a"]), tmp_path / "two").data / "users" / "a").is_file()
    for changed in ({"entries": {}}, {"files": [{"entry": "data/0002", "path": ["users", "a"]}]}, {"folders": 1}):
        with pytest.raises((InputError, StorageError)):
            restored(manifested(tmp_path / "b", ["users", "a"], **changed), tmp_path / "three")
        assert not (tmp_path / "three" / "home" / "server").exists()


def test_newer_formats_are_refused(place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(archive, "FORMAT", 2)
        newer = place.back_up("newer.tar.zst")
    with pytest.raises(CorpusError, match="the backup has a newer format; given: 2"):
        restored(newer, tmp_path / "two")
    (place.data / "format.json").write_text('{"data": "precog", "format": 99}')
    with pytest.raises(CorpusError, match="newer format"):
        place.back_up()
    assert names_in(tmp_path) == ["one"]


def test_what_cannot_be_backed_up_is_said(place: Place, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="nothing to back up"):
        place.back_up(user="nobody")
    with pytest.raises(StorageError, match="cannot stand in what it is of"):
        back_up(place.data / "b.tar.zst", data=place.data, home=place.home)
    with pytest.raises(InputError, match="this is no backup"):
        restored(tmp_path / "one" / "home" / "server" / "keys.json", tmp_path / "two")
    with pytest.raises(InputError, match="cannot be read"):
        restored(tmp_path / "none", tmp_path / "two")


def test_links_are_left_out_and_told(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRECOG_HOME", str(place.home))
    (place.data / "link").symlink_to("/etc/hostname")
    (place.corpus().parent / "unfinished").mkdir()
    (place.corpus().parent / "unfinished" / "lock").touch()
    (place.corpus().parents[1] / "removed").mkdir()
    (place.corpus().parents[1] / "removed" / "text").write_text("on its way out")
    (place.data / "keys.lock").touch()
    os.mkfifo(place.data / "pipe")
    arguments = ["backup", "--out", str(place.folder / "b.tar.zst"), "--data", str(place.data), "--json"]
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 0
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["skipped"] == ["link", "pipe"]
    assert (report["corpora"], report["memories"], report["files"]) == (2, 2, 4)
    assert report["file_bytes"] == (place.folder / "b.tar.zst").stat().st_size


def test_the_commands_say_what_they_did(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return int(str(end.value.code)), said.out, said.err

    monkeypatch.setenv("PRECOG_HOME", str(place.home))
    status, out, _ = run("backup", "--out", tmp_path / "b.tar.zst")
    assert (status, "2 corpora, 2 memories, 4 other files" in out) == (0, True)
    status, out, err = run("restore", tmp_path / "b.tar.zst")
    assert (status, err.count("\n")) == (1, 1)
    assert "is not overwritten" in err
    monkeypatch.setenv("PRECOG_HOME", str(tmp_path / "two"))
    status, out, _ = run("restore", tmp_path / "b.tar.zst", "--json")
    assert status == 0
    assert json.loads(out.splitlines()[-1])["corpora"] == 2
    with (place.corpus() / "000001" / "segments" / "000000.seg").open("r+b") as file:
        file.seek(5000)
        file.write(b"spoilt")
    monkeypatch.setenv("PRECOG_HOME", str(place.home))
    status, out, err = run("backup", "--out", tmp_path / "c.tar.zst")
    assert status == 1
    assert "segment 000000, record 0" in err
    assert (tmp_path / "c.tar.zst").exists()
