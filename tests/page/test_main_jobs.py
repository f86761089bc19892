"""The main job of each page, end to end, in Chromium and with the shipped model."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import THEMES, opened, violations
from made_site import ANSWER, CORPUS, QUESTION, SAID, SCRIPT, TRUNCATED, demo_files, fill
from served import listening, services_of, settings_in

from precog.encoders import Encoder
from precog.records import ModelChoice

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(
    browser: Any,
    tmp_path_factory: pytest.TempPathFactory,
    shipped: ModelChoice,
    encoder: Encoder,
    repository: Path,
) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("site")
    with services_of(settings_in(folder), shipped, encoder) as services, listening(services) as url:
        odd = f"Odd 😀 text. {SCRIPT}\nThe lamp of the lighthouse of Oban was lit by 😀 Morag Kerr in 1811.\n"
        files = [*demo_files(repository, "bhutan.pdf", "malta.html"), ("<b>odd.txt", odd.encode())]
        fill(url, [*files, ("broken.pdf", TRUNCATED)], (*SAID, f"Somebody sent me {SCRIPT} by mail."))
        yield url


def ask(page: Any, question: str) -> None:
    page.get_by_label("Question").fill(question)
    page.keyboard.press("Enter")
    page.locator(".verdict").wait_for()


def test_an_answer_says_where_it_stands_and_what_it_cost(browser: Any, site: str) -> None:
    from playwright.sync_api import expect

    with opened(browser, site) as page:
        ask(page, QUESTION)
        expect(page.locator(".answer")).to_have_text(ANSWER)
        source = page.get_by_role("region", name="Source", exact=True)
        expect(source).to_contain_text("bhutan.pdf")
        expect(source.locator("mark")).to_have_text(ANSWER)
        ways = page.locator("table.steps")
        expect(ways).to_have_count(2)
        assert ways.nth(0).locator("tbody th").all_inner_texts() == [
            "encode", "search", "load", "inject", "first token", "total",
        ]  # fmt: skip
        expect(ways.nth(1)).to_contain_text("read in context")
        expect(page.locator(".verdict")).to_contain_text("than reading")
        expect(page.locator("#announcer")).to_contain_text("than reading")
        expect(page.get_by_text("The state is the one that reading the chunk leaves, kept as fp16.")).to_be_visible()
        source.get_by_role("button", name="Show bhutan.pdf").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator(".document .chunk-mark mark")).to_have_text(ANSWER)
        expect(dialog.locator(".document")).to_contain_text("Location: Southern Asia")
        page.keyboard.press("Escape")
        expect(dialog).to_have_count(0)
        expect(source.get_by_role("button", name="Show bhutan.pdf")).to_be_focused()


def test_what_is_not_in_the_documents_cites_nothing(browser: Any, site: str) -> None:
    from playwright.sync_api import expect

    with opened(browser, site) as page:
        ask(page, "Who won the football cup in 1999?")
        expect(page.locator(".answer")).to_have_text("not found in these documents")
        expect(page.get_by_role("region", name="Source", exact=True)).to_have_count(0)
        expect(page.locator("summary")).to_contain_text("What was looked at")
        expect(page.locator(".verdict")).to_contain_text("Neither way finds an answer.")


def test_text_of_documents_is_text(browser: Any, site: str) -> None:
    from playwright.sync_api import expect

    with opened(browser, site) as page:
        ask(page, "Who lit the lamp of the lighthouse of Oban?")
        expect(page.locator("blockquote").first).to_contain_text(SCRIPT)
        marks = page.get_by_role("region", name="Source", exact=True).locator("mark")
        if marks.count():  # characters outside the basic plane before it do not shift it
            expect(marks).to_have_text(page.locator(".answer").inner_text())
        page.get_by_role("button", name="Show <b>odd.txt").first.click()
        expect(page.locator("dialog .document")).to_contain_text(SCRIPT)
        page.keyboard.press("Escape")
        page.get_by_role("link", name="Memory").click()
        expect(page.locator(".timeline")).to_contain_text(SCRIPT)
        page.get_by_role("link", name="Corpora").click()
        expect(page.get_by_role("rowheader", name="<b>odd.txt")).to_be_visible()
        assert page.locator("main img, main script, main b").count() == 0
        assert page.title() == "Corpora – PRECOG"


def test_a_folder_comes_in_and_a_document_and_a_corpus_go(
    browser: Any, site: str, tmp_path: Path, repository: Path
) -> None:
    from playwright.sync_api import expect

    folder = tmp_path / "papers"
    (folder / "old").mkdir(parents=True)
    for name, data in demo_files(repository, "gettysburg-address.txt"):
        (folder / "old" / name).write_bytes(data)
    (folder / "notes.md").write_text("# Notes\n\nThe harbour of Oban was built in 1811.\n")
    (folder / "broken.pdf").write_bytes(TRUNCATED)
    (folder / ".hidden.txt").write_text("This is not sent.")
    with opened(browser, f"{site}/#corpora") as page:
        expect(page.get_by_role("heading", name=CORPUS)).to_be_visible()
        expect(page.get_by_role("region", name="Failures")).to_contain_text("it is a truncated PDF")
        page.get_by_text("New corpus").click()
        page.get_by_label("Name").fill("Not a name")
        page.get_by_role("button", name="Make").click()
        assert page.evaluate("document.querySelector(':invalid') !== null")
        page.get_by_label("Name").fill("papers")
        page.get_by_role("button", name="Make").click()
        expect(page.get_by_role("heading", name="papers")).to_be_visible()
        page.locator("#folder").set_input_files(folder)
        expect(page.get_by_role("progressbar").or_(page.locator(".job .done"))).to_be_visible()
        expect(page.locator(".job .done")).to_contain_text("Read 2 documents")
        expect(page.locator(".job")).to_contain_text("papers/broken.pdf: it is a truncated PDF")
        documents = page.get_by_role("region", name="Documents")
        expect(documents).to_contain_text("papers/old/gettysburg-address.txt")
        expect(documents).not_to_contain_text("hidden")
        assert "kB" in documents.get_by_role("row").nth(1).get_by_role("cell").nth(3).inner_text()
        page.get_by_role("button", name="Delete papers/notes.md").click()
        page.get_by_role("button", name="Keep").click()
        expect(documents).to_contain_text("papers/notes.md")
        page.get_by_role("button", name="Delete papers/notes.md").click()
        page.get_by_role("button", name="Delete document").click()
        receipt = page.get_by_role("region", name="Receipt")
        expect(receipt).to_contain_text("not a byte of it is left")
        expect(receipt).to_be_focused()
        expect(documents).not_to_contain_text("notes.md")
        page.get_by_role("button", name="Delete corpus").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete corpus").click()
        expect(page.get_by_role("heading", name=CORPUS)).to_be_visible()
        expect(page.get_by_role("region", name="All corpora")).not_to_contain_text("papers")


def test_a_memory_is_mapped_searched_and_forgotten_with_a_receipt(browser: Any, site: str) -> None:
    from playwright.sync_api import expect

    with opened(browser, f"{site}/#memory") as page:
        expect(page.locator("svg.map").first).to_be_visible()
        page.get_by_text("Remember something").click()
        page.get_by_role("textbox", name="What was said", exact=True).fill("My umbrella is on the tram to Belem.")
        page.get_by_role("button", name="Remember", exact=True).click()
        expect(page.locator(".done")).to_contain_text("Remembered as #")
        page.get_by_label("Search what was said").fill("Where did I leave my umbrella?")
        page.keyboard.press("Enter")
        first = page.locator(".timeline li").first
        expect(first).to_contain_text("My umbrella is on the tram to Belem.")
        first.get_by_role("checkbox").check()
        page.get_by_role("button", name="Forget 1 chosen").click()
        page.get_by_role("dialog").get_by_role("button", name="Forget").click()
        receipt = page.get_by_role("region", name="Receipt")
        expect(receipt).to_contain_text("not a byte of it is left")
        expect(receipt.get_by_role("term").last).to_have_text("not searched")
        expect(receipt).not_to_contain_text("says some of the same")
        expect(page.locator(".timeline")).not_to_contain_text("umbrella")
        expect(page.locator(".timeline")).to_contain_text(SAID[-1])
        page.locator(".legend-list button").first.click()
        expect(page.locator(".bar-head h2")).to_contain_text("▸")
        page.get_by_role("button", name="Show all").click()
        expect(page.locator(".bar-head h2")).to_have_text("Timeline")
        expect(page.locator(".bar-head h2")).to_be_focused()


def test_a_device_is_described_and_this_machine_measured(browser: Any, site: str) -> None:
    from playwright.sync_api import expect

    with opened(browser, f"{site}/#device") as page:
        expect(page.locator(".verdict")).to_contain_text("1.06 s to the first token")
        page.get_by_label("Tokens read, a second").fill("380")
        page.get_by_label("Tokens read, a second").press("Enter")
        expect(page.locator(".notes")).to_contain_text("given, neither measured nor assumed: prefill_tok_per_s 380")
        page.get_by_role("combobox", name="Device").select_option("hbm3")
        expect(page.get_by_role("region", name="What it buys").get_by_role("heading")).to_contain_text("HBM3")
        page.get_by_role("slider", name="Chunk").focus()
        page.keyboard.press("ArrowRight")
        expect(page.get_by_label("Chunk, tokens")).not_to_have_value("512")
        page.get_by_role("button", name="Measure this machine").click()
        expect(page.locator("h2 .badge")).to_have_text("measured")
        expect(page.get_by_role("button", name="Measure this machine")).to_be_focused()
        expect(page.locator(".notes")).to_contain_text("reading and writing: tenns-base")
        before = page.locator(".verdict").inner_text()
        page.get_by_role("slider", name="Chunk").focus()
        for _ in range(40):
            page.keyboard.press("ArrowRight")
        expect(page.locator(".verdict")).not_to_have_text(before)
        expect(page.locator("h2 .badge")).to_have_text("measured")


@pytest.mark.parametrize("theme", THEMES)
def test_axe_finds_nothing_and_nothing_is_wider_than_the_screen(browser: Any, site: str, theme: str) -> None:
    with opened(browser, site, bypass_csp=True, **THEMES[theme]) as page:
        ask(page, QUESTION)
        check(page)
        page.get_by_role("button", name="Show bhutan.pdf").first.click()
        page.locator("dialog .document mark").wait_for()
        check(page)
        page.keyboard.press("Escape")
        page.get_by_role("link", name="Corpora").click()
        page.get_by_role("heading", name="3 documents").wait_for()
        check(page)
        assert page.get_by_role("region", name="Documents").evaluate("table => table.scrollWidth <= table.clientWidth")
        page.get_by_role("button", name="Delete malta.html").click()
        check(page)
        page.keyboard.press("Escape")
        page.get_by_role("link", name="Memory").click()
        page.locator("svg.map").first.wait_for()
        check(page)
        page.get_by_role("link", name="Device").click()
        page.locator(".verdict").wait_for()
        check(page)
        for table in page.locator(".scroll").all():
            assert table.evaluate("table => table.scrollWidth <= table.clientWidth")


def check(page: Any) -> None:
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_all_of_it_by_keyboard(browser: Any, site: str) -> None:
    from playwright.sync_api import expect

    with opened(browser, site) as page:
        expect(page.get_by_label("Question")).to_be_focused()
        back = []
        for _ in range(6):
            page.keyboard.press("Shift+Tab")
            back.append(page.evaluate("document.activeElement.innerText.trim()"))
        assert back == [CORPUS, "Device", "Memory", "Corpora", "Ask", "Skip to content"]
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name=CORPUS)).to_be_visible()
        reached = set()
        for _ in range(30):
            page.keyboard.press("Tab")
            reached.add(page.evaluate("document.activeElement.innerText || document.activeElement.id"))
        assert {CORPUS, "New corpus", "Delete corpus", "files", "folder", "Delete"} <= reached


def test_a_walk_through_of_somebody_who_has_only_the_page(browser: Any, site: str) -> None:
    """Which chunk answered, how long each stage took, how a memory is deleted: each in a few steps, and timed."""
    from playwright.sync_api import expect

    took: dict[str, float] = {}
    started = time.perf_counter()

    def done(step: str) -> None:
        nonlocal started
        took[step] = time.perf_counter() - started
        started = time.perf_counter()

    with opened(browser, site) as page:
        page.get_by_label("Question").wait_for()
        expect(page.get_by_text("A state is what the model is left with after reading a chunk")).to_be_visible()
        done("the page is open, and says what a state is")
        ask(page, QUESTION)
        done("a question is answered, and reading measured")
        chunk = page.get_by_role("region", name="Source", exact=True).locator("li.used")
        expect(chunk).to_contain_text("page 1, characters 0–908")
        expect(chunk).to_contain_text("answered from this state")
        done("which chunk answered")
        times = page.locator("table.steps").first.locator("td.figure").all_inner_texts()
        assert len(times) == 6
        assert all(text.endswith(("s", "0")) for text in times)
        done("how long each stage took")
        page.get_by_role("link", name="Memory").click()
        page.get_by_text("I am allergic to peanuts.").click()
        page.get_by_role("button", name="Forget 1 chosen").click()
        page.get_by_role("dialog").get_by_role("button", name="Forget").click()
        expect(page.get_by_role("region", name="Receipt")).to_contain_text("not a byte of it is left")
        done("a memory is deleted, with a receipt")
    for step, seconds in took.items():
        print(f"{seconds:6.2f} s  {step}")
    assert sum(took.values()) < 60
