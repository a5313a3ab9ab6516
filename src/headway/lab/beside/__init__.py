"""The libraries, servers and folders beside a launch: prepared before a run, removed after it."""

from pathlib import Path

__all__ = ["PROGRAMS"]

PROGRAMS = Path(__file__).parent / "programs"
"""Scripts that are started by path in processes of their own: they import libraries that Headway itself does not
have."""
