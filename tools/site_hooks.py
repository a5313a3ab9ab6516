"""Hooks of mkdocs: add the reference pages, some top-level documents, the decisions, and a page for each linked file."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from site_pages import PAGES

__all__ = ["on_config", "on_files", "on_page_markdown"]

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
PICTURES = {".png", ".svg"}
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
    is_text = path.is_file() and path.suffix not in PICTURES | {".css"}
    return path if is_text and path.is_relative_to(ROOT) else None


def _target(folder: Path, target: str) -> str | None:
    """Return where the site, below its top, has what a link in a document of `folder` leads to; None: it stays."""
    path = _shown(folder, target)
    if path is not None:
        return _page_of(path)
    picture = (folder / target).resolve()
    is_picture = picture.suffix in PICTURES and picture.is_file() and picture.is_relative_to(DOCS)
    return picture.relative_to(DOCS).as_posix() if is_picture else None


def _linked(documents: set[Path]) -> set[Path]:
    """Return the files that links of these documents lead to, and links of those documents, and so on."""
    found: set[Path] = set()
    new = documents
    while new:
        texts = [(document.parent, document.read_text("utf-8")) for document in new if document.suffix == ".md"]
        targets = {_shown(folder, match["target"]) for folder, text in texts for match in _LINK.finditer(text)}
        new = {path for path in targets if path is not None} - found - documents
        found |= new
    return found


def _title(document: Path) -> str:
    """Return a document's heading, without the colon after a number."""
    heading = document.read_text("utf-8").partition("\n")[0].removeprefix("# ")
    return re.sub(r"^(\d+): ", r"\1 ", heading)


def _decisions(nav: list[Any]) -> list[Any]:
    """Return the navigation with all decisions below the heading `Decisions`, which has their overview alone."""
    filled: list[Any] = []
    for entry in nav:
        if not isinstance(entry, dict):
            filled.append(entry)
            continue
        [(name, below)] = entry.items()
        if name == "Decisions":
            pages = sorted((DOCS / "decisions").glob("[0-9]*.md"))
            below = [*below, *({_title(page): page.relative_to(DOCS).as_posix()} for page in pages)]
        filled.append({name: _decisions(below) if isinstance(below, list) else below})
    return filled


def on_config(config: Any) -> Any:
    """Fill the decisions into the navigation."""
    config.nav = _decisions(config.nav)
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that docs/ does not contain."""
    for name, lines in PAGES.items():
        files.append(File.generated(config, name, content="\n".join(lines()) + "\n"))
    for name, page in TOP.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text("utf-8")))
    documents = {*DOCS.rglob("*.md"), *(ROOT / name for name in TOP)}
    for path in sorted(_linked(documents)):
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
        there = _target(origin.parent, match["target"])
        if there is None:
            return match[0]
        return f"]({'../' * uri.count('/')}{there}{match['anchor'] or ''})"

    return _LINK.sub(replaced, markdown)
