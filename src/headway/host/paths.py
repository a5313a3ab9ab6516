"""The folders of Headway: results, probes, interpreters. XDG folders, each overridable by one variable."""

import contextlib
import os
import shlex
from pathlib import Path

from headway.errors import StoreError, UsageError

__all__ = [
    "cache_folder",
    "cache_path",
    "check_store_folder",
    "default_store",
    "home_folder",
    "interpreters_folder",
    "libraries_folder",
    "scratch_folder",
]


def _xdg(variable: str, fallback: str) -> Path:
    value = os.environ.get(variable, "")
    if value.startswith("/"):  # the XDG specification says that a relative path must be ignored
        return Path(value, "headway")
    home = home_folder()
    if home is None:
        raise UsageError("this user has no home folder", hint=f"set HOME, or {variable}, to an absolute path")
    return home / fallback / "headway"


def home_folder() -> Path | None:
    """Return the user's home; None without one.

    A HOME that is no absolute path is none: it would name another folder wherever the command is run.
    """
    if not os.environ.get("HOME", "/").startswith("/"):
        return None
    try:
        return Path.home()
    except RuntimeError:  # the user database has no entry for this user
        return None


def cache_path() -> Path:
    """Return the folder for data that can be made again, which may be missing. Raises UsageError: there is no home."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def cache_folder() -> Path:
    """Return the folder for data that can be made again (probes, provisioned interpreters), and make it if necessary.

    Raises:
        UsageError: The folder cannot be made, or there is no home.
    """
    folder = cache_path()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the cache folder {folder} cannot be created: {error.strerror or error}",
            hint="set XDG_CACHE_HOME to a folder that you may write to",
        ) from error
    return folder


def default_store() -> Path:
    """Return the results store: `$HEADWAY_STORE`, else `results.sqlite` in the user's data folder."""
    named = os.environ.get("HEADWAY_STORE")
    return Path(named) if named else _own_store()


def _own_store() -> Path:
    return _xdg("XDG_DATA_HOME", ".local/share") / "results.sqlite"


def check_store_folder(store: Path) -> None:
    """Make the folder of a results store if it is the user's own one; any other is there, or its name may be a slip.

    Raises:
        StoreError: The folder does not exist.
        OSError: The folder cannot be made.
    """
    folder = store.parent
    if folder.exists():
        return
    with contextlib.suppress(UsageError):  # without a home
        if store == _own_store():
            folder.mkdir(parents=True, exist_ok=True)
            return
    raise StoreError(
        f"the folder {folder} of the results store is not there",
        hint=f"make it with `mkdir -p {shlex.quote(str(folder))}`, or correct the name (`--store`, HEADWAY_STORE)",
    )


def interpreters_folder() -> Path:
    """Return the private prefix of provisioned interpreters: `$HEADWAY_INTERPRETERS`, else in the cache."""
    named = os.environ.get("HEADWAY_INTERPRETERS")
    return Path(named) if named else cache_path() / "interpreters"


def libraries_folder() -> Path:
    """Return the folder of libraries for measured interpreters: `$HEADWAY_LIBRARIES`, else in the cache."""
    named = os.environ.get("HEADWAY_LIBRARIES")
    return Path(named) if named else cache_path() / "libraries"


def scratch_folder() -> Path:
    """Return the empty folder that launches run in, made if necessary; nothing can be imported from there."""
    folder = cache_folder() / "scratch"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
