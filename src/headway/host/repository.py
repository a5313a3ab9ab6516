"""Facts about a folder from git."""

import shutil
import subprocess
from pathlib import Path

from headway.errors import UsageError

__all__ = ["commit_info", "git"]


def git(*arguments: str, where: Path, own_group: bool = False) -> str:
    """Return the output of git.

    Args:
        arguments: What git is to do.
        where: The folder in which it runs.
        own_group: It runs in a process group of its own, where the terminal's Ctrl-C does not reach it.

    Raises:
        UsageError: git fails, or is not installed.
    """
    program = shutil.which("git")
    if program is None:
        raise UsageError("there is no git", hint="install git")
    done = subprocess.run(
        [program, *arguments],
        cwd=where,
        capture_output=True,
        text=True,
        errors="surrogateescape",  # names of files
        check=False,
        process_group=0 if own_group else None,
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise UsageError(
            f"`git {' '.join(arguments)}` failed in {where}: {said}", hint="name a revision of a repository"
        )
    return done.stdout.strip()


def commit_info(where: Path) -> dict[str, str | bool]:
    """Return a folder's current commit, with pytest-benchmark's keys; {} if the folder is in no repository."""
    try:
        identity, time, author_time = git("log", "-1", "--format=%H%n%cI%n%aI", where=where).splitlines()
        return {
            "id": identity,
            "time": time,
            "author_time": author_time,
            "dirty": bool(git("status", "--porcelain", "--untracked-files=no", where=where)),
            "branch": git("rev-parse", "--abbrev-ref", "HEAD", where=where),
            "project": Path(git("rev-parse", "--show-toplevel", where=where)).name,
        }
    except (UsageError, ValueError):
        return {}
