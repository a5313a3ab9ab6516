"""Helpers that tests of pages share."""

import time

from playwright.sync_api import Page

PATIENCE_S = 30


def until(page: Page, condition: str) -> None:
    """Wait until a condition of the page is true.

    Playwright's own wait uses `eval`, which the page's content security policy forbids.
    """
    end_s = time.monotonic() + PATIENCE_S
    while not page.evaluate(condition):
        assert time.monotonic() < end_s, f"never: {condition}"
        page.evaluate("new Promise(done => requestAnimationFrame(done))")
