"""Take the picture of a page's timelines for README and guides: `python tools/picture.py PAGE.html PICTURE.png`."""

import argparse
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright
from provision.find_chromium import find_chromium

WIDTH, HEIGHT = 1100, 900
GAP_PX = 8


def main() -> int:
    """Write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path, metavar="PAGE.html")
    parser.add_argument("picture", type=Path, metavar="PICTURE.png")
    arguments = parser.parse_args()
    path = find_chromium()
    if path is None:
        print("error: no Chromium\n\nhint: `make browser` adds one, or set HEADWAY_CHROMIUM", file=sys.stderr)
        return 1
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path)
        tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        tab.goto(arguments.page.resolve().as_uri())
        tab.wait_for_selector("html[data-ready]")
        # Hides all but the title and, of each launch, its name and its lanes.
        tab.add_style_tag(content=".tools, .details, .launch p { display: none } .launch { margin: 6px 0 }")
        tab.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        boxes = [box for one in tab.locator(".launch").all() if (box := one.bounding_box())]
        top, bottom = boxes[0]["y"] - GAP_PX, boxes[-1]["y"] + boxes[-1]["height"] + GAP_PX
        clip = {"x": boxes[0]["x"] - GAP_PX, "y": top, "width": boxes[0]["width"] + 2 * GAP_PX, "height": bottom - top}
        tab.screenshot(path=arguments.picture, clip=clip, full_page=True)  # type: ignore[arg-type]
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
