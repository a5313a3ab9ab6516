"""Finds loaded packages that are installed copies of a repository's own: two of its trees would both import the copy."""

import functools
import json
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote, urlsplit

from headway.errors import UsageError
from headway.host.packages import in_packages
from headway.host.repository import git

__all__ = ["EDITABLE", "copied_package", "installed", "sources"]

EDITABLE = "install it with `pip install --editable`, or set `pythonpath` in pytest's configuration"
"""The remedy for an installed copy."""

_SOURCES = ("", "src", "lib", "python")
"""The folders of a project in which its packages usually are."""

_NO_PACKAGES = {*sys.stdlib_module_names, "__main__", "__mp_main__"}


def installed(path: Path) -> bool:
    """Tell whether a path belongs to an environment, or to Python itself."""
    return in_packages(path) or path.resolve().is_relative_to(_resolved(Path(sys.prefix)))


@functools.lru_cache(maxsize=1)
def _resolved(prefix: Path) -> Path:
    return prefix.resolve()


def sources(folder: Path, module: str) -> Iterator[Path]:
    """Yield the files that usually have a module of the project in `folder`."""
    for source in _SOURCES:
        for ending in ("/__init__.py", ".py"):
            yield folder / source / (module.replace(".", "/") + ending)


def copied_package(top: Path) -> str:
    """Return a sentence about a loaded package that is an installed copy of one in this repository; "" without one.

    Both trees would import that copy, so their ratio would say nothing about the revisions.

    Args:
        top: pytest's root folder.
    """
    folders = [top.resolve()]
    while not (folders[-1] / ".git").exists() and folders[-1] != folders[-1].parent:
        folders.append(folders[-1].parent)
    loaded: dict[Path, str] = {}
    # Hundreds of modules are looked at, of a few projects.
    has_own = functools.cache(lambda name: any(_has_part(folder, name) for folder in folders))
    for name, module in sorted(sys.modules.items()):
        file = _installed_file(name, module)
        if file is None:
            continue
        own = [path for folder in folders for path in sources(folder, name)] if has_own(name.partition(".")[0]) else []
        # A repository below sys.prefix has its own files there, too.
        found = [path for path in own if path.is_file()]
        if found and file not in found and not _parts(module) & {path.parent for path in found}:
            return f"{name} is imported from {file.parent}, and not from {found[0].parent}, so both trees run that copy"
        if in_packages(file) or not file.is_relative_to(folders[-1]):
            loaded[file] = name
    return _copied_project(folders, loaded)


def _installed_file(name: str, module: ModuleType) -> Path | None:
    """Return the file of a module that is installed; None for any other one, and for a part of Python."""
    given = getattr(module, "__file__", None)
    if not isinstance(given, str) or name.partition(".")[0] in _NO_PACKAGES:
        return None
    file = Path(given).absolute()
    return file if installed(file) else None


def _has_part(folder: Path, package: str) -> bool:
    """Tell whether a folder has a file or a part of a package in a usual place."""
    places = [folder / source / package for source in _SOURCES]
    return any(one.is_dir() or one.with_suffix(".py").is_file() for one in places)


def _parts(module: ModuleType) -> set[Path]:
    """Return the folders of a package; one of an old kind of namespace may be both a copy and the repository's own."""
    return {Path(one) for one in getattr(module, "__path__", ())}


def _copied_project(folders: Sequence[Path], loaded: dict[Path, str]) -> str:
    """Return the same for a copy whose source is in no usual folder; its metadata tell where it is from.

    Args:
        folders: pytest's root folder and those above it, up to the repository's.
        loaded: The names of the loaded modules that are installed, by their files.
    """
    if not (folders[-1] / ".git").exists():
        return ""
    names = {_project(folder) for folder in folders} - {""}
    for one in metadata.distributions():
        origin = _origin(one)
        if origin.get("dir_info", {}).get("editable"):
            continue
        folder = _folder(origin)
        inside = folder is not None and folder.is_relative_to(folders[-1]) and _is_kept(folder, folders[-1])
        if not inside and _normal(one.name or "") not in names:
            continue
        for file in one.files or ():
            name = loaded.get(Path(str(one.locate_file(file))).absolute())
            if name is not None:
                where, source = Path(str(one.locate_file(file))).parent, folder if inside else folders[-1]
                return f"{name} is imported from {where}, a copy of {one.name} in {source}, so both trees run that copy"
    return ""


def _origin(one: metadata.Distribution) -> dict[str, Any]:
    """Return where a distribution was installed from (PEP 610); {} for one of an index."""
    try:
        found = json.loads(one.read_text("direct_url.json") or "{}")
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _folder(origin: dict[str, Any]) -> Path | None:
    """Return the folder that a distribution was built from; None for an archive or another machine."""
    url = urlsplit(str(origin.get("url", "")))
    path = Path(unquote(url.path)) if url.scheme == "file" else None
    return path.resolve() if path is not None and path.is_dir() else None


def _is_kept(folder: Path, top: Path) -> bool:
    """Tell whether git has a folder: a library in a folder that git ignores is the same for both trees."""
    try:
        return bool(git("ls-files", "--cached", "--others", "--exclude-standard", "--", str(folder), where=top))
    except UsageError:
        return False


def _project(folder: Path) -> str:
    """Return the normal name of the project whose pyproject.toml is in a folder; "" without one."""
    try:
        values = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))
        return _normal(str(values["project"]["name"]))
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
