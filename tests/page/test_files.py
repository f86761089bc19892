"""The page as it is served, without a browser: what it may load, and that it holds nothing from elsewhere."""

import re
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from served import client_of

from precog.server.keys import KeyRing
from precog.server.routes.page import page_files
from precog.server.services import Services


def sources() -> dict[str, str]:
    return {name: data.decode() for name, (data, _, _) in page_files().items()}


def test_every_file_is_served_with_a_strict_policy(client: TestClient) -> None:
    assert {"index.html", "page.css", "app.js", "icon.svg"} <= set(page_files())
    for path in ("/", *(f"/page/{name}" for name in page_files())):
        answer = client.get(path)
        assert answer.status_code == 200, path
        rules = dict(rule.split(" ", 1) for rule in answer.headers["content-security-policy"].split("; "))
        assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == rules["frame-ancestors"] == "'none'"
        assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
        assert rules["require-trusted-types-for"] == "'script'"
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-cache"
        kind = answer.headers["content-type"]
        suffix = path.rpartition(".")[2]
        assert kind == {
            "/": "text/html; charset=utf-8", "html": "text/html; charset=utf-8", "css": "text/css; charset=utf-8",
            "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml",
        }[suffix]  # fmt: skip


def test_what_has_not_changed_is_not_sent_again(client: TestClient) -> None:
    tag = client.get("/page/app.js").headers["etag"]
    again = client.get("/page/app.js", headers={"If-None-Match": f'"other", W/{tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert "script-src 'self'" in again.headers["content-security-policy"]
    assert client.get("/page/app.js", headers={"If-None-Match": '"other"'}).status_code == 200
    assert client.head("/").status_code == 200


@pytest.mark.parametrize("name", ["nothing.js", "..%2Fapp.py", "%2e%2e/page.py", "app.py", "a/b.js", "", "app.js%00"])
def test_nothing_else_is_served(client: TestClient, name: str) -> None:
    answer = client.get(f"/page/{name}")
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]["code"] in ("missing", "http", "input")


def test_the_page_is_open_and_what_it_asks_is_not(services: Services) -> None:
    KeyRing(services.settings.data).create("Ana", ("read",))
    with client_of(services) as client:
        assert client.get("/").status_code == 200
        assert client.get("/page/app.js").status_code == 200
        for path in ("/v1/corpora", "/v1/edge", "/page/x/y.js", "/page", "/docs"):
            assert client.get(path).status_code == 401, path
        assert client.post("/").status_code == 405


def test_nothing_is_inline_and_nothing_is_from_elsewhere() -> None:
    for name, text in sources().items():
        urls = re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"'`]*", text, re.IGNORECASE)
        assert [found for found in urls if found != "http://www.w3.org/2000/svg"] == [], name
        assert not re.search(r"@import|url\(", text) or name.endswith(".js"), name
    html = sources()["index.html"]
    assert not re.search(r"\son[a-z]+\s*=|\sstyle\s*=|<style|javascript:", html, re.IGNORECASE)
    assert all(re.search(r"src=", tag) for tag in re.findall(r"<script[^>]*>", html))


def test_text_never_becomes_html() -> None:
    for name, text in sources().items():
        if name.endswith(".js"):
            banned = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|\beval\(|new Function|srcdoc"
            assert not re.search(banned, text), name
            assert "localStorage" not in text, name


def test_every_import_is_a_file_of_the_page() -> None:
    found = sources()
    for name, text in found.items():
        for imported in re.findall(r'from "\./([^"]+)"', text):
            assert imported in found, f"{name} imports {imported}"
    for reference in re.findall(r'(?:src|href)="/page/([^"]+)"', found["index.html"]):
        assert reference in found


def test_the_files_lie_in_the_package_that_is_built(repository: Path) -> None:
    """The wheel takes all of src/precog that git does not ignore."""
    folder = repository / "src" / "precog" / "server" / "page"
    assert {path.name for path in folder.iterdir()} == set(page_files())
    project = (repository / "pyproject.toml").read_text(encoding="utf-8")
    assert 'packages = ["src/precog"]' in project
    ignored = (repository / ".gitignore").read_text(encoding="utf-8").split()
    assert not {"*.js", "*.css", "*.html", "*.svg", "page/"} & set(ignored)
    for path in folder.iterdir():
        assert path.read_text(encoding="utf-8").count("\n") <= 500, path.name
