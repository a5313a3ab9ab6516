"""Hooks of mkdocs: add the reference pages, some top-level documents, and a page for each file with links to it."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from site_pages import PAGES

__all__ = ["on_files", "on_page_markdown"]

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
# Files in the repository's root that are also pages of the site.
TOP = {"CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
LANGUAGES = {
    ".c": "c",
    ".h": "c",
    ".py": "python",
    ".toml": "toml",
    ".ts": "typescript",
    ".sh": "sh",
    ".pml": "promela",
}
_LINK = re.compile(r"\]\((?P<target>[^)#\s:]+)(?P<anchor>#[^)\s]*)?\)")


def _page_of(path: Path) -> str:
    """Return the page, below docs/, that shows a file of the repository."""
    name = path.relative_to(ROOT).as_posix()
    if name in TOP:
        return TOP[name]
    if path.is_relative_to(DOCS) and path.suffix == ".md":
        return path.relative_to(DOCS).as_posix()
    return f"source/{name}.md"


def _shown(folder: Path, target: str) -> Path | None:
    """Return the file of the repository that a link in a document of `folder` leads to, if a page can show it."""
    path = (folder / target).resolve()
    is_text = path.is_file() and path.suffix not in {".png", ".svg", ".css"}
    return path if is_text and path.is_relative_to(ROOT) else None


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that docs/ does not contain."""
    for name, lines in PAGES.items():
        files.append(File.generated(config, name, content="\n".join(lines()) + "\n"))
    for name, page in TOP.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text("utf-8")))
    documents = {*DOCS.rglob("*.md"), *(ROOT / name for name in TOP)}
    linked: set[Path] = set()
    for document in documents:
        found = {_shown(document.parent, match["target"]) for match in _LINK.finditer(document.read_text("utf-8"))}
        linked |= {path for path in found if path is not None}
    for path in sorted(linked - documents):
        text = path.read_text("utf-8")
        fence = f"````{LANGUAGES.get(path.suffix, 'text')}"
        shown = (
            text
            if path.suffix == ".md"
            else f"# {path.relative_to(ROOT).as_posix()}\n\n{fence}\n{text.rstrip()}\n````\n"
        )
        files.append(File.generated(config, _page_of(path), content=shown))
    return files


def on_page_markdown(markdown: str, page: Any, **_more: Any) -> str:
    """Redirect links to files of the repository to the pages that show them."""
    uri = page.file.src_uri
    origin = next((ROOT / name for name, of in TOP.items() if of == uri), None)
    if origin is None:
        origin = ROOT / uri.removeprefix("source/").removesuffix(".md") if uri.startswith("source/") else DOCS / uri

    def replaced(match: re.Match[str]) -> str:
        path = _shown(origin.parent, match["target"])
        if path is None:
            return match[0]
        up = "../" * uri.count("/")
        return f"]({up}{_page_of(path)}{match['anchor'] or ''})"

    return _LINK.sub(replaced, markdown)
