"""Prepare the commit of a release: one version, and the changelog gathered from changelog.d/.

usage: release.py VERSION          write the version, gather the fragments, remove them
       release.py --check TAG      fail if the tag, the version and the changelog do not agree

Both fail as long as pyproject.toml has no URL of the repository.
"""

import datetime as dt
import re
import sys
from pathlib import Path

import package_page

__all__ = ["KINDS", "checked", "gathered", "main"]

ROOT = Path(__file__).resolve().parent.parent
KINDS = {"added": "Added", "changed": "Changed", "fixed": "Fixed", "removed": "Removed"}
"""The kind of a fragment, as in its file name -> the heading of the kind's section."""
_VERSION_LINE = re.compile(r'^__version__ = "(?P<version>[^"]+)"$', re.MULTILINE)
# PEP 440 without epochs, local versions and post releases.
_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_AREA_LINE = re.compile(r"^#### (.+)$", re.MULTILINE)
_RELEASE_LINE = re.compile(r"^## \d", re.MULTILINE)
_NO_SOURCE = (
    "pyproject.toml has no `Source` in [project.urls], so the package's page would have a dead picture and dead links"
)
_UNRELEASED = "## Unreleased\n\nSee `changelog.d/`.\n"


def gathered(fragments: list[Path]) -> str:
    """Return the sections of a release: one per kind, with a list for each area, in the order of issues.

    A line `#### AREA` in a fragment opens an area. Items of one area stand together, whatever their fragments, and items
    above the first such line come before all areas.

    Raises:
        ValueError: A fragment's name has no issue or no kind.
    """
    named = []
    for path in fragments:
        match = re.fullmatch(rf"(\d+)\.({'|'.join(KINDS)})\.md", path.name)
        if match is None:
            raise ValueError(f"{path.name} is no fragment; expected ISSUE.KIND.md, with a kind of {', '.join(KINDS)}")
        named.append((int(match[1]), match[2], path))
    by_kind: dict[str, dict[str, list[str]]] = {}
    for _, kind, path in sorted(named):
        areas = by_kind.setdefault(kind, {"": []})
        before, *rest = _AREA_LINE.split(path.read_text("utf-8"))
        for area, items in [("", before), *zip(rest[::2], rest[1::2], strict=True)]:
            text = items.strip()
            if text:
                areas.setdefault(area, []).append(text if text.startswith("- ") else f"- {_hung(text)}")
    sections = [
        f"### {heading}\n\n" + "\n\n".join(_list(area, items) for area, items in by_kind[kind].items() if items)
        for kind, heading in KINDS.items()
        if kind in by_kind
    ]
    return "\n\n".join(sections) + "\n"


def _list(area: str, items: list[str]) -> str:
    return (f"#### {area}\n\n" if area else "") + "\n".join(items)


def _hung(text: str) -> str:
    """Return a text as the item of a list: all lines after the first are indented by two blanks."""
    return "\n".join(f"  {line}" if place and line else line for place, line in enumerate(text.splitlines()))


def version() -> str:
    """Return the version of the package."""
    match = _VERSION_LINE.search((ROOT / "src/headway/__init__.py").read_text("utf-8"))
    assert match is not None
    return match["version"]


def checked(tag: str) -> list[str]:
    """Return the problems of a tag: another version, no section in the changelog, fragments that are left, or no URL."""
    problems = [] if package_page.source(ROOT) else [_NO_SOURCE]
    if tag != f"v{version()}":
        problems.append(f"the tag is {tag}, the version is {version()}; expected the tag v{version()}")
    if f"\n## {version()} - " not in (ROOT / "CHANGELOG.md").read_text("utf-8"):
        problems.append(f"CHANGELOG.md has no section of {version()}; run tools/release.py {version()}")
    left = sorted(path.name for path in (ROOT / "changelog.d").glob("[0-9]*.md"))
    if left:
        problems.append(f"changelog.d/ has fragments that are in no release: {', '.join(left)}")
    return problems


def release(new: str) -> None:
    """Write the version and the changelog, and remove the fragments.

    Raises:
        ValueError: The project has no URL, a fragment no issue or kind, or the changelog no place for the release.
    """
    if package_page.source(ROOT) is None:
        raise ValueError(
            f"{_NO_SOURCE}\n\nhint: add the URL of the repository, below which are /blob/TAG/ and /raw/TAG/"
        )
    package, log = ROOT / "src/headway/__init__.py", ROOT / "CHANGELOG.md"
    fragments = sorted((ROOT / "changelog.d").glob("[0-9]*.md"))
    today = dt.datetime.now(dt.UTC).date().isoformat()
    text = log.read_text("utf-8")
    if _UNRELEASED not in text:
        raise ValueError(f"CHANGELOG.md has no section like {_UNRELEASED!r} to put the release below")
    mending = [path.name for path in fragments if ".added." not in path.name]
    if mending and not _RELEASE_LINE.search(text):
        print(
            f"note: {', '.join(mending)}: no release has what they change, fix or remove; see changelog.d/README.md",
            file=sys.stderr,
        )
    section = f"{_UNRELEASED}\n## {new} - {today}\n\n{gathered(fragments)}"
    package.write_text(_VERSION_LINE.sub(f'__version__ = "{new}"', package.read_text("utf-8")), "utf-8")
    log.write_text(text.replace(_UNRELEASED, section), "utf-8")
    for path in fragments:
        path.unlink()
    print(
        f"release: {new} of {today}, {len(fragments)} fragments; next: make dist, commit, git tag v{new}",
        file=sys.stderr,
    )


def main(arguments: list[str]) -> int:
    """Carry out the arguments; return the exit code."""
    if len(arguments) == 2 and arguments[0] == "--check":
        problems = checked(arguments[1])
        for problem in problems:
            print(f"error: {problem}", file=sys.stderr)
        return int(bool(problems))
    if len(arguments) != 1 or not _VERSION.fullmatch(arguments[0]):
        print(
            f"error: expected a version like 0.2.0 or 1.0.0rc1, got {' '.join(arguments) or 'nothing'}", file=sys.stderr
        )
        print("\nhint: tools/release.py 0.2.0, or tools/release.py --check v0.2.0", file=sys.stderr)
        return 2
    try:
        release(arguments[0])
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
