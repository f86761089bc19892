"""What may be sent, what it may be called, and that nothing of it is left once it is forgotten."""

import io
import os
import stat
from pathlib import Path

import pytest
from corpora_of import ANTARCTICA, MALTA, code_of, ended, filled, make, upload
from fastapi.testclient import TestClient
from served import client_of, services_of, settings_in, users_of

from precog.encoders import Encoder
from precog.records import ModelChoice
from precog.server.services import Services
from precog.server.uploads import check_document_name

ESCAPES = [
    "../up.txt",
    "a/../../up.txt",
    "/etc/passwd",
    "a//b.txt",
    "./a.txt",
    "..",
    ".",
    "a\\b.txt",
    "..\\up.txt",
    "a\0b.txt",
    "a\nb.txt",
    "a\x1b[2J.txt",
    "a\u202eb.txt",
    "\ud800.txt",
    "n" * 300,
    "",
]


@pytest.mark.parametrize("name", ESCAPES)
def test_a_name_that_leads_out_is_refused(client: TestClient, name: str, tmp_path: Path) -> None:
    make(client)
    if "\ud800" not in name:
        by_query = client.post("/v1/corpora/papers/documents", params={"name": name}, content=b"text")
        assert code_of(by_query) == (400, "input")
    boundary = b"--x\r\nContent-Disposition: form-data; name=\"files\"; filename*=utf-8''"
    quoted = "".join(f"%{byte:02x}" for byte in name.encode("utf-8", "surrogatepass"))
    body = boundary + quoted.encode() + b"\r\n\r\ntext\r\n--x--\r\n"
    plain = f'--x\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\ntext\r\n--x--\r\n'
    for form in (body, plain.encode("utf-8", "surrogatepass")):
        answer = client.post(
            "/v1/corpora/papers/documents",
            content=form,
            headers={"content-type": "multipart/form-data; boundary=x"},
        )
        if answer.status_code == 202:  # the form itself has taken the name for another one: then it is a harmless one
            check_document_name(answer.json()["documents"][0])
            ended(client, answer.json())
        else:
            assert answer.status_code == 400, answer.text
    written = {path.relative_to(tmp_path).parts[0] for path in tmp_path.rglob("*") if path.is_file()}
    assert written <= {"data", "home"}
    assert not [path for path in tmp_path.rglob("*") if path.name in ("up.txt", "passwd", "b.txt")]


def test_odd_names_are_only_words(client: TestClient) -> None:
    make(client)
    names = ["CON", "nul.txt", "reports/2024/q1.txt", "Übersicht, neu.txt", "a b?.txt", "x" * 255, "stdin", "~root"]
    form = [("files", (name, f"{name[:9]} says {ANTARCTICA}".encode())) for name in names]
    job = ended(client, client.post("/v1/corpora/papers/documents", files=form).json())
    assert job["documents"] == names
    assert job["report"]["documents"]["new"] == len(names)
    assert job["report"]["documents"]["missing"] == 0
    listed = client.get("/v1/corpora/papers/documents").json()["data"]
    assert [row["document"] for row in listed] == names
    found = client.get("/v1/corpora/papers/documents/reports/2024/q1.txt")
    assert found.json()["document"]["document"] == "reports/2024/q1.txt"


def test_a_body_may_be_the_document(client: TestClient) -> None:
    make(client)
    answer = client.post("/v1/corpora/papers/documents", params={"name": "malta.md"}, content=MALTA.encode())
    assert ended(client, answer.json())["report"]["documents"]["new"] == 1
    hit = client.post("/v1/corpora/papers/search", json={"query": "Valletta"}).json()["hits"][0]
    assert hit["document"] == "malta.md"


def test_what_is_no_upload_is_refused(client: TestClient, tmp_path: Path) -> None:
    make(client)
    url = "/v1/corpora/papers/documents"
    twice = [("files", ("a.txt", b"one")), ("files", ("a.txt", b"two"))]
    form = {"content-type": "multipart/form-data; boundary=x"}
    for answer in (
        client.post(url, content=b"text"),
        client.post(url),
        client.post(url, params={"name": "a.txt"}, files=twice[:1]),
        client.post(url, files=twice),
        client.post(url, data={"a": "b"}, files=[("a", ("", b"c"))]),
        client.post(url, content=b"nothing", headers=form),
        client.post(url, content=b"", headers=form),
        client.post(url, content=b"--x\r\nbroken", headers={"content-type": "multipart/form-data"}),
        client.post(url, content=b"--x\r\n\xff: \r\n\r\n--x--", headers=form),
        client.post(
            url, content=b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nb\r\n--x--\r\n', headers=form
        ),
    ):
        assert answer.status_code == 400, answer.text
    assert client.get("/v1/jobs").json()["data"] == []
    assert not (list((tmp_path / "data").rglob("job_*")))


def test_too_large_an_upload_is_refused_however_it_comes(choice: ModelChoice, encoder: Encoder, tmp_path: Path) -> None:
    settings = settings_in(tmp_path, max_upload_bytes=10_000)
    with services_of(settings, choice, encoder) as services, client_of(services) as client:
        make(client)
        large = b"x" * 10_001
        url = "/v1/corpora/papers/documents"
        assert code_of(client.post(url, params={"name": "a"}, content=large)) == (413, "limit")
        assert code_of(client.post(url, params={"name": "a"}, content=iter([large[:9_000], large]))) == (413, "limit")
        assert code_of(client.post(url, files={"files": ("a", io.BytesIO(large))})) == (413, "limit")
        assert not list(settings.data.rglob("job_*"))


def test_only_its_owner_may_read_what_is_kept(client: TestClient, tmp_path: Path) -> None:
    filled(client)
    for path in (tmp_path / "data").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_paths_are_read_below_allowed_folders_alone(choice: ModelChoice, encoder: Encoder, tmp_path: Path) -> None:
    allowed, outside = tmp_path / "allowed", tmp_path / "outside"
    for folder in (allowed, outside):
        folder.mkdir()
        (folder / "malta.txt").write_text(MALTA)
    (allowed / "out").symlink_to(outside)
    (allowed / "file.txt").symlink_to(outside / "malta.txt")
    settings = settings_in(tmp_path, allow_roots=(allowed, tmp_path / "data"))
    with services_of(settings, choice, encoder) as services, client_of(services) as client:
        make(client)
        url = "/v1/corpora/papers/ingest"
        for path in (
            outside,
            allowed / "out",
            allowed / "out" / "malta.txt",
            allowed / "file.txt",
            allowed / ".." / "outside",
            f"{allowed}/*/malta.txt/../../../outside/*",
            f"{allowed}-not",
            "/no/such/thing",
            tmp_path / "data" / "users",
        ):
            answer = client.post(url, json={"paths": [str(path)]})
            assert code_of(answer) == (403, "access"), path
        for path in ("-", "relative", "~", f"{allowed}/a\0b", f"{allowed}/none.txt", f"{allowed}/*"):
            assert code_of(client.post(url, json={"paths": [path]})) == (400, "input"), path
        done = ended(client, client.post(url, json={"paths": [str(allowed)]}).json())
        assert done["report"]["documents"]["new"] == 1
        assert done["report"]["skipped"] == {"link leaving the folder": 2}
        [row] = client.get("/v1/corpora/papers/documents").json()["data"]
        assert row["document"] == str(allowed / "malta.txt")


def test_no_path_is_read_where_none_is_allowed(client: TestClient) -> None:
    make(client)
    answer = client.post("/v1/corpora/papers/ingest", json={"paths": ["/etc"]})
    assert code_of(answer) == (403, "access")


def test_nothing_of_a_forgotten_document_is_left_anywhere(services: Services, tmp_path: Path) -> None:
    secret = "The vault of Mdina opens with 4711.\n\n"
    with users_of(services) as client:
        filled(client, mdina_notes_txt=secret, malta_txt=MALTA)
        ended(client, upload(client, mdina_notes_txt=secret + "It is blue."))
        client.post("/v1/corpora/papers/ask", json={"question": "What opens the vault?"})
        assert _files_with(tmp_path, b"4711")
        assert _files_with(tmp_path, b"mdina")
        report = client.delete("/v1/corpora/papers/documents/mdina.notes.txt").json()
        assert report["forgotten"] == ["mdina.notes.txt"]
        assert (report["hits"], report["outside"]) == (0, [])
        assert report["searched_for"] > 3
        assert _files_with(tmp_path, b"4711") == _files_with(tmp_path, b"mdina") == []
        assert code_of(client.delete("/v1/corpora/papers/documents/mdina.notes.txt")) == (404, "missing")
        hits = client.post("/v1/corpora/papers/search", json={"query": "vault of Mdina"}).json()["hits"]
        assert {hit["document"] for hit in hits} == {"malta.txt"}


def _files_with(folder: Path, text: bytes) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if text in path.read_bytes() or text in os.fsencode(path.name)]
