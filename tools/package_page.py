"""Make the text of the package's page on the index: the README, with links that lead to the repository.

The build calls `dynamic_metadata` (pyproject.toml). The index shows the README alone, where a relative link is dead.
The URL comes from `Source` in [project.urls]; as long as there is none, the links stay, and tools/release.py refuses.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["absolute", "dynamic_metadata", "source"]

ROOT = Path(__file__).resolve().parents[1]
_LINK = re.compile(r"(?P<picture>!?)\[(?P<words>[^\]]*)\]\((?!#|[a-z][a-z0-9+.-]*:|//)(?P<target>[^)\s]+)\)")


def source(root: Path = ROOT) -> str | None:
    """Return the URL of the repository on the forge; None if the project has none."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    return _source(project)


def _source(project: Mapping[str, Any]) -> str | None:
    url = str(project.get("urls", {}).get("Source", "")).rstrip("/")
    return url or None


def absolute(text: str, url: str, version: str) -> str:
    """Return a document with relative links made absolute: to files of the release, and for a picture to its bytes."""

    def linked(match: re.Match[str]) -> str:
        kind = "raw" if match["picture"] else "blob"
        return f"{match['picture']}[{match['words']}]({url}/{kind}/v{version}/{match['target']})"

    return _LINK.sub(linked, text)


def dynamic_metadata(_settings: Mapping[str, Any], project: Mapping[str, Any]) -> dict[str, Any]:
    """Return the project's field `readme`, as scikit-build-core asks for it."""
    text = (ROOT / "README.md").read_text("utf-8")
    url = _source(project)
    if url is not None:
        text = absolute(text, url, project["version"])
    return {"readme": {"text": text, "content-type": "text/markdown"}}
