"""The map of a memory in Chromium: groups that emerge are outlined and named, and whatever is chosen stands out."""

import re
from typing import Any

from browser import opened, violations
from made_site import diary, remember

IS_INSIDE = """thing => {
    const [inner, outer] = [thing.getBoundingClientRect(), thing.ownerSVGElement.getBoundingClientRect()];
    const isWithin = inner.left >= outer.left && inner.right <= outer.right;
    return isWithin && inner.top >= outer.top && inner.bottom <= outer.bottom;
}"""


def test_a_group_that_emerges_is_outlined_and_named_and_chosen_by_keyboard(browser: Any, url: str) -> None:
    from playwright.sync_api import expect

    remember(url, diary())
    with opened(browser, f"{url}/#memory", bypass_csp=True) as page:
        expect(page.locator("svg.map polygon.outline")).to_have_count(1)
        drawn = page.locator("svg.map", has=page.locator("polygon.outline"))
        name = drawn.locator("text").inner_html()
        assert drawn.locator("polygon").evaluate(IS_INSIDE)
        assert drawn.locator("text").evaluate(IS_INSIDE)
        assert f"emerging: {name}" in (drawn.get_attribute("aria-label") or "")
        page.get_by_role("region", name="Domains").focus()
        page.keyboard.press("Tab")
        entry = page.get_by_role("button", name=f"emerging: {name}")
        expect(entry).to_be_focused()
        found = re.search(r"\((\d+)\)", entry.inner_text())
        assert found is not None
        assert int(found[1]) >= 20
        page.keyboard.press("Enter")
        title = page.get_by_role("heading", name=f"emerging: {name}")
        expect(title).to_be_focused()
        expect(page.locator(".timeline li")).to_have_count(int(found[1]))
        assert page.locator(".timeline small", has_not_text="▸ others").count() == 0
        expect(page.locator(".point.chosen")).to_have_count(int(found[1]))
        assert violations(page) == []
        page.get_by_role("button", name="Show all").click()
        expect(page.locator(".point.chosen")).to_have_count(0)
