"""Facts about a folder from git.

git calls its hooks with variables that name a repository, its index and more: `git commit -a` names the index that is
being committed. A git that has them works on these, whatever its folder is, and `git worktree add` would replace the
commit's content. So git runs without them here, and finds the repository of its folder.
"""

import functools
import os
import shutil
import subprocess
from pathlib import Path

from headway.errors import UsageError

__all__ = ["commit_info", "git", "without_gits_variables"]

_SETTINGS = {"GIT_CONFIG_PARAMETERS", "GIT_CONFIG_COUNT"}
"""The local variables that contain the user's settings (`git -c`, `safe.directory`); git passes them to submodules, too."""


def without_gits_variables() -> dict[str, str]:
    """Return this process's environment without git's variables that are about one repository."""
    local = _local_variables() if any(name.startswith("GIT_") for name in os.environ) else frozenset()
    return {name: value for name, value in os.environ.items() if name not in local}


@functools.cache
def _local_variables() -> frozenset[str]:
    """Return the names of the variables that are about one repository; none without git."""
    program = shutil.which("git")
    if program is None:
        return frozenset()
    done = subprocess.run([program, "rev-parse", "--local-env-vars"], capture_output=True, text=True, check=False)
    return frozenset(done.stdout.split()) - _SETTINGS


def git(*arguments: str, where: Path, own_group: bool = False) -> str:
    """Return the output of git, which works on the repository of a folder, even if a hook of another one runs this process.

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
        env=without_gits_variables(),
        capture_output=True,
        text=True,
        errors="surrogateescape",  # names of files
        check=False,
        process_group=0 if own_group else None,
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
        raise UsageError(
            f"`git {' '.join(arguments)}` failed in {where}: {said}", hint="run it there to see all that git says"
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
