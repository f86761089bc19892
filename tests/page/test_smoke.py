"""The page in Chromium over a server that has nothing yet; one quick look at everything."""

from typing import Any

import httpx
from browser import opened, violations
from served import listening

from precog.server.keys import KeyRing
from precog.server.services import Services


def test_each_page_opens_and_says_that_there_is_nothing_yet(browser: Any, url: str) -> None:
    from playwright.sync_api import expect

    with opened(browser, url) as page:
        expect(page.get_by_text("There are no documents yet")).to_be_visible()
        page.get_by_role("link", name="Add documents").click()
        expect(page.get_by_text("There is no corpus yet")).to_be_visible()
        page.get_by_role("link", name="Memory").click()
        expect(page.get_by_text("Nothing is remembered yet")).to_be_visible()
        page.get_by_role("link", name="Device").click()
        expect(page.locator(".verdict")).to_contain_text("26.4× sooner than reading in context")
        assert page.title() == "Device – PRECOG"
        page.go_back()
        expect(page.get_by_role("heading", name="Memory")).to_be_visible()


def test_with_keys_it_asks_for_one_and_keeps_it_out_of_every_address(browser: Any, services: Services) -> None:
    from playwright.sync_api import expect

    _, key = KeyRing(services.settings.data).create("Ana", ("read", "write"))
    asked: list[str] = []
    with listening(services) as url, opened(browser, url, bypass_csp=True) as page:
        page.on("request", lambda request: asked.append(request.url))
        expect(page.get_by_role("heading", name="This server needs a key")).to_be_visible()
        assert violations(page) == []
        page.get_by_label("Key").fill("pk-wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_be_visible()
        page.get_by_label("Key").fill(key)
        page.keyboard.press("Enter")
        expect(page.get_by_text("There are no documents yet")).to_be_visible()
        assert page.evaluate("Object.values(sessionStorage)") == [key]
        assert page.evaluate("localStorage.length + document.cookie.length") == 0
        assert not [address for address in asked if key in address]
        page.get_by_role("button", name="Forget key").click()
        expect(page.get_by_role("heading", name="This server needs a key")).to_be_visible()
        assert page.evaluate("sessionStorage.length") == 0


def test_a_server_that_is_gone_is_told(browser: Any, url: str) -> None:
    from playwright.sync_api import expect

    with opened(browser, url) as page:
        expect(page.get_by_text("There are no documents yet")).to_be_visible()
        page.route("**/v1/**", lambda route: route.abort())
        page.get_by_role("link", name="Corpora").click()
        expect(page.get_by_role("alert")).to_contain_text("The server does not answer.")
        page.unroute("**/v1/**")
        page.get_by_role("button", name="Try again").click()
        expect(page.get_by_text("There is no corpus yet")).to_be_visible()


def test_a_corpus_that_went_elsewhere_is_said_to_be_gone(browser: Any, url: str) -> None:
    from playwright.sync_api import expect

    with opened(browser, f"{url}/#corpora") as page:
        expect(page.get_by_label("Name")).to_be_visible()  # there is none yet: the form is open
        page.get_by_label("Name").fill("papers")
        page.get_by_role("button", name="Make").click()
        expect(page.get_by_role("button", name="papers")).to_have_attribute("aria-current", "true")
        assert httpx.delete(f"{url}/v1/corpora/papers").status_code == 200
        page.locator("#files").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"The harbour."})
        expect(page.get_by_role("region", name="Corpora", exact=True)).to_contain_text("papers is deleted.")
        expect(page.get_by_text("There is no corpus yet")).to_be_visible()
        assert page.get_by_role("heading", name="papers").count() == 0


def test_a_job_whose_server_is_gone_can_be_looked_at_again(browser: Any, url: str) -> None:
    from playwright.sync_api import expect

    with opened(browser, f"{url}/#corpora") as page:
        page.get_by_label("Name").fill("papers")
        page.get_by_role("button", name="Make").click()
        expect(page.get_by_text("There is nothing in this corpus yet")).to_be_visible()
        page.route("**/v1/jobs/*/events", lambda route: route.abort())
        page.locator("#files").set_input_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"The harbour."})
        job = page.locator(".job")
        expect(job).to_contain_text("A server that starts again goes on with this.")
        expect(job.get_by_role("button", name="Stop")).to_have_count(0)
        page.unroute("**/v1/jobs/*/events")
        job.get_by_role("button", name="Look again").click()
        expect(job.locator(".done")).to_contain_text("Read 1 document")
        expect(job).to_be_focused()
        expect(page.locator("#announcer")).to_contain_text("Read 1 document")


def test_what_cannot_be_is_said_once_and_the_focus_stays(browser: Any, url: str) -> None:
    from playwright.sync_api import expect

    with opened(browser, f"{url}/#device") as page:
        before = page.locator(".verdict").inner_text()
        page.get_by_label("Chunk, tokens").fill("0")
        page.get_by_label("Chunk, tokens").press("Enter")
        expect(page.locator("input:invalid")).to_have_count(1)
        expect(page.locator(".verdict")).to_have_text(before)
        refused = {
            "code": "input",
            "message": "watts is wrong; expected: a number",
            "given": "Watts",
            "expected": "a number",
        }
        page.route("**/v1/edge", lambda route: route.fulfill(status=422, json={"error": refused}))
        page.get_by_role("button", name="Measure this machine").click()
        expect(page.get_by_role("alert")).to_have_text("Watts is wrong; expected: a number.")
        expect(page.get_by_role("button", name="Measure this machine")).to_be_focused()
