"""Tells which files belong to installed packages."""

from pathlib import Path

__all__ = ["in_packages"]

_FOLDERS = {"site-packages", "dist-packages"}
"""The folders of installed packages, the second one for those of Debian; the agent's `strangers.effects` has the same."""


def in_packages(path: Path) -> bool:
    """Tell whether a path is one of an installed package, by its folders; links are not followed."""
    return not _FOLDERS.isdisjoint(path.parts)
