"""A headless Chromium, and pages that print nothing on their console and request nothing from a network."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from provision.find_chromium import find_chromium


# The scope is not the whole session: Playwright's synchronous API runs an event loop in this thread until it is
# stopped, and no other test could call asyncio.run() meanwhile.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Yield the Chromium that `make test` provides."""
    path = find_chromium()
    assert path, "no Chromium: `make browser` adds one, or set HEADWAY_CHROMIUM"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=path)
        yield launched
        launched.close()


@pytest.fixture
def open_page(browser: Browser, tmp_path: Path):
    """Return a function that opens a page's HTML from disk.

    At the end, the page must have printed nothing and requested nothing.
    """
    contexts: list[BrowserContext] = []
    heard: list[str] = []

    def open_page(text: str, *, width: int = 1280, height: int = 800, scheme: str = "light") -> Page:
        path = tmp_path / f"page-{len(contexts)}.html"
        path.write_text(text, encoding="utf-8")
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: heard.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: heard.append(f"error: {error}"))
        page.on("dialog", lambda dialog: heard.append(f"dialog: {dialog.message}"))
        page.on(
            "request",
            lambda request: (
                heard.append(f"request: {request.url}")
                if not request.url.startswith((path.as_uri(), "data:", "blob:"))
                else None
            ),
        )
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert heard == []
