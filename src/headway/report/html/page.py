"""One HTML file from a page's data: the built bundle, the data as inert text, and blocks of columns.

The file requests nothing from any network: its policy forbids that, and everything is inside.
"""

import base64
import html
import json
from collections.abc import Mapping
from dataclasses import asdict
from importlib import resources

from headway.report.html.schema import Page

__all__ = ["render_page"]

_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


def render_page(page: Page, blocks: Mapping[str, bytes] | None = None) -> str:
    """Return the whole file.

    Args:
        page: The page's data.
        blocks: The page's binary data, by name.
    """
    data = json.dumps(asdict(page), allow_nan=False, separators=(",", ":"))
    parts = [
        "<!doctype html>",
        '<html lang="en">',
        "<head>",
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<link rel="icon" href="data:,">',
        f"<title>{html.escape(page.title)} - Headway</title>",
        f"<style>{_asset('report.css')}</style>",
        "</head>",
        '<body><noscript>This report needs JavaScript, and nothing from any network.</noscript><main id="page"></main>',
        f'<script type="application/json" id="data">{_harmless(data)}</script>',
        *(
            f'<script type="application/octet-stream" id="{name}">{base64.b64encode(block).decode()}</script>'
            for name, block in (blocks or {}).items()
        ),
        f"<script>{_asset('report.js')}</script>",
        "</body></html>",
        "",
    ]
    return "\n".join(parts)


def _harmless(data: str) -> str:
    r"""Return JSON in which nothing can end the element that it stands in: `<` is `\u003c`, as JSON allows."""
    return data.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text("utf-8")
