import os
import sys
import threading
from pathlib import Path

import pytest

from precog.errors import DocumentError, InputError, StorageError, UsageError
from precog.text.document import document_text
from precog.text.loading import load_document
from precog.text.sources import file_source, find_sources, printable_path


def plant(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text of {name}\n")


def names(root: Path, *arguments: str | Path, **options: bool) -> list[str]:
    sources = find_sources(arguments or [root], **options).sources
    return [os.path.relpath(source.name, root) for source in sources]


def test_a_folder_is_walked_in_a_fixed_order(tmp_path) -> None:
    plant(tmp_path, "b.txt", "a/z.md", "a/y.md", "C/x.py", "README", "a.txt")
    assert names(tmp_path) == ["README", "a.txt", "b.txt", "C/x.py", "a/y.md", "a/z.md"]


def test_what_is_passed_over_is_counted_by_reason(tmp_path) -> None:
    plant(
        tmp_path,
        "a.txt",
        ".hidden/b.txt",
        ".profile",
        "node_modules/x/c.js",
        "env/pyvenv.cfg",
        "env/lib/d.py",
        ".env",
        ".env.local",
        "prod.env",
        "id_rsa",
        "keys/server.pem",
        "keys/server.KEY",
        "build/out.txt",
    )
    (tmp_path / ".gitignore").write_text("build/\n")
    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (tmp_path / "core").write_bytes(bytes(range(256)))
    found = find_sources([tmp_path])
    assert [Path(source.name).name for source in found.sources] == ["a.txt"]
    assert found.skipped == {
        "binary file": 1,
        "environment": 2,
        "format that is not read": 1,
        "hidden": 3,
        "key or password file": 6,
        "named by .gitignore": 1,
    }
    assert len(found.passed_over) == sum(found.skipped.values())
    assert (f"{tmp_path}/keys/server.pem", "key or password file") in found.passed_over
    assert (f"{tmp_path}/photo.png", "format that is not read") in found.passed_over


def test_everything_can_be_asked_for(tmp_path) -> None:
    plant(tmp_path, "a.txt", ".env", "node_modules/c.js", "build/out.txt")
    (tmp_path / ".gitignore").write_text("build/\n")
    assert names(tmp_path, include_all=True) == [".env", ".gitignore", "a.txt", "build/out.txt", "node_modules/c.js"]


def test_gitignore_files_nest_and_negate(tmp_path) -> None:
    plant(
        tmp_path, "a.log", "keep.log", "sub/b.log", "sub/c.log", "sub/deep/notes.txt", "sub/only.txt", "other/only.txt"
    )
    (tmp_path / ".gitignore").write_text("*.log\n!keep.log\n[\n")
    (tmp_path / "sub/.gitignore").write_text("!c.log\n/only.txt\ndeep\n")
    assert names(tmp_path) == ["keep.log", "other/only.txt", "sub/c.log"]


def test_the_gitignore_of_the_repository_around_applies_unless_the_folder_itself_is_ignored(tmp_path) -> None:
    plant(tmp_path, "docs/a.txt", "docs/b.tmp", "build/c.txt", "build/d.tmp")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("*.tmp\nbuild/\n")
    assert names(tmp_path, tmp_path / "docs") == ["docs/a.txt"]
    assert names(tmp_path, tmp_path / "build") == ["build/c.txt", "build/d.tmp"]


@pytest.mark.parametrize("include_all", [False, True])
def test_links_are_never_followed_out_of_the_folder(tmp_path, include_all: bool) -> None:
    plant(tmp_path, "out/secret.txt", "root/a.txt", "root/sub/b.txt")
    root = tmp_path / "root"
    (root / "out.txt").symlink_to(tmp_path / "out/secret.txt")
    (root / "out").symlink_to(tmp_path / "out")
    (root / "again.txt").symlink_to(root / "a.txt")
    (root / "sub/loop").symlink_to(root)
    (root / "broken.txt").symlink_to(root / "nowhere")
    os.mkfifo(root / "pipe")
    found = find_sources([root], include_all=include_all)
    assert [Path(source.name).name for source in found.sources] == ["a.txt", "b.txt"]
    assert found.skipped == {
        "broken link": 1,
        "link inside the folder": 2,
        "link leaving the folder": 2,
        "not a regular file": 1,
    }


def test_a_file_named_on_purpose_is_read_unless_it_is_a_key(tmp_path) -> None:
    plant(tmp_path, ".notes.txt", "id_rsa", "real.txt")
    (tmp_path / "link.txt").symlink_to(tmp_path / "real.txt")
    assert names(tmp_path, tmp_path / ".notes.txt", tmp_path / "link.txt") == [".notes.txt", "link.txt"]
    refused = find_sources([tmp_path / "id_rsa"])
    assert (refused.sources, refused.skipped) == ((), {"key or password file": 1})
    assert names(tmp_path, tmp_path / "id_rsa", include_all=True) == ["id_rsa"]


def test_globs(tmp_path) -> None:
    plant(tmp_path, "a.txt", "b.md", "sub/c.txt", "sub/deep/d.txt", "sub/id_rsa", ".h/e.txt", "node_modules/f.txt")
    assert names(tmp_path, tmp_path / "*.txt") == ["a.txt"]
    assert names(tmp_path, tmp_path / "**/*.txt") == ["a.txt", "sub/c.txt", "sub/deep/d.txt"]
    assert names(tmp_path, tmp_path / "su*") == ["sub/c.txt", "sub/deep/d.txt"]
    assert names(tmp_path, tmp_path / "sub" / "*", tmp_path / "sub") == ["sub/c.txt", "sub/deep/d.txt"]
    assert find_sources([tmp_path / "*/*.txt"]).skipped == {"environment": 1}
    with pytest.raises(InputError, match="no file matches"):
        find_sources([tmp_path / "*.pdf"])


def test_a_file_whose_name_looks_like_a_glob(tmp_path) -> None:
    plant(tmp_path, "a[1].txt")
    assert names(tmp_path, tmp_path / "a[1].txt") == ["a[1].txt"]


def test_a_missing_path_is_one_clear_line(tmp_path) -> None:
    with pytest.raises(InputError, match="no such file or folder") as caught:
        find_sources([tmp_path / "missing"])
    assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="no such file"):
        file_source(tmp_path / "missing")
    with pytest.raises(InputError, match="is a folder"):
        file_source(tmp_path)


def test_the_same_file_is_read_once(tmp_path, monkeypatch) -> None:
    plant(tmp_path, "a.txt")
    monkeypatch.chdir(tmp_path)
    assert names(tmp_path, "a.txt", tmp_path, tmp_path / "*.txt", "./a.txt") == ["a.txt"]


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are always UTF-8 there")
def test_names_that_are_no_text_stay_printable_and_distinct(tmp_path) -> None:
    raw = os.fsencode(tmp_path)
    for name in (b"caf\xe9.txt", b"caf\\xe9.txt", "café.txt".encode(), b"line\nend\x1b.txt"):
        Path(os.fsdecode(raw + b"/" + name)).write_text("words\n")
    found = find_sources([tmp_path]).sources
    assert [source.name.removeprefix(f"{tmp_path}/") for source in found] == [
        "caf\\\\xe9.txt",
        "café.txt",
        "caf\\xe9.txt",
        "line\\x0aend\\x1b.txt",
    ]
    for source in found:
        source.name.encode()
        assert source.name.isprintable()
        assert load_document(source).source == source.name
        assert document_text(load_document(source)) == "words\n"


def test_printable_paths_are_absolute(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert printable_path(Path("a/../b.txt")) == f"{tmp_path}/b.txt"


def test_standard_input_can_be_read_again(tmp_path) -> None:
    piped = tmp_path / "piped"
    piped.write_bytes(b"one\n\ntwo\n" * 1_000)
    with piped.open("rb") as stdin:
        (source,) = find_sources(["-"], stdin=stdin).sources
    document = load_document(source)
    assert (document.source, document.media_type) == ("stdin", "text/plain")
    assert document_text(document) == document_text(document) == "one\n\ntwo\n" * 1_000
    piped.write_bytes(b"")
    with piped.open("rb") as stdin:
        (empty,) = find_sources(["-"], stdin=stdin).sources
    with pytest.raises(DocumentError, match="empty"):
        load_document(empty)


def test_an_unreadable_folder_is_counted(tmp_path, monkeypatch) -> None:
    plant(tmp_path, "a.txt", "locked/b.txt")
    scandir = os.scandir

    def refuse(path: Path) -> object:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    found = find_sources([tmp_path])
    assert [Path(source.name).name for source in found.sources] == ["a.txt"]
    assert found.skipped == {"folder that cannot be read": 1}


def test_a_folder_below_that_nobody_may_look_into_is_counted(tmp_path, monkeypatch) -> None:
    plant(tmp_path, "a.txt", "lost+found/b.txt")
    locked = tmp_path / "lost+found"

    def guarded(call):
        def refuse(path=".", *rest, **options):
            inside = isinstance(path, str | Path) and locked in Path(path).parents
            if inside or (call.__name__ == "scandir" and Path(path) == locked):
                raise PermissionError(13, "Permission denied")
            return call(path, *rest, **options)

        return refuse

    for name in ("stat", "scandir"):
        monkeypatch.setattr(os, name, guarded(getattr(os, name)))
    found = find_sources([tmp_path])
    assert [Path(source.name).name for source in found.sources] == ["a.txt"]
    assert found.skipped == {"folder that cannot be read": 1}
    with pytest.raises(InputError, match="Permission denied"):
        file_source(locked / "b.txt")
    assert find_sources([locked]).skipped == {"folder that cannot be read": 1}


def test_devices_and_silent_pipes_are_refused(tmp_path) -> None:
    with pytest.raises(InputError, match="a device, not a file"):
        find_sources(["/dev/zero"])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="nothing is written into this pipe"):
        find_sources([tmp_path / "pipe"])
    with Path("/dev/zero").open("rb") as zeros, pytest.raises(InputError, match="is a device"):
        find_sources(["-"], stdin=zeros)


def test_a_pipe_with_a_writer_is_read_to_its_end(tmp_path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_text("words from afar\n" * 10_000))
    keeper = os.open(tmp_path / "pipe", os.O_RDWR)  # there from the beginning, as in a shell's <(…)
    writer.start()
    threading.Timer(0.3, os.close, [keeper]).start()
    (source,) = find_sources([tmp_path / "pipe"]).sources
    writer.join()
    assert document_text(load_document(source)) == "words from afar\n" * 10_000


def test_no_room_for_a_copy_of_standard_input(tmp_path, monkeypatch) -> None:
    piped = tmp_path / "piped"
    piped.write_bytes(b"words " * 1_000)

    def full(**_options):
        return Path("/dev/full").open("wb", buffering=0)

    monkeypatch.setattr("precog.text.spool.TemporaryFile", full)
    with piped.open("rb") as stdin, pytest.raises(StorageError, match="No space left"):
        find_sources(["-"], stdin=stdin)


def test_an_empty_argument_and_nobodys_home_are_refused() -> None:
    with pytest.raises(UsageError, match="unset"):
        find_sources([""])
    with pytest.raises(UsageError, match="no home folder"):
        find_sources(["~nouser/x"])


@pytest.mark.parametrize("when", ["between", "while"])
def test_a_file_that_changes_while_it_is_read(tmp_path, when: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one paragraph\n\n" * 100_000)
    document = load_document(file_source(path))
    blocks = document.blocks()
    if when == "between":
        path.write_text("others\n")
    else:
        next(blocks)
        with path.open("a") as more:
            more.write("and more\n")
    with pytest.raises(DocumentError, match="changed while it was read") as caught:
        list(blocks)
    assert str(path) in str(caught.value)
