"""What stands beside a launch: libraries, servers, folders. Made ready before a run, removed after it."""

from pathlib import Path

__all__ = ["PROGRAMS"]

PROGRAMS = Path(__file__).parent / "programs"
"""Scripts of their own, started by path: they import libraries that Headway itself has not got."""
