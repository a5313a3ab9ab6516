"""Find the shared library and its headers, and check the library's ABI.

A plan checks both before it starts, so it knows whether the native cells can run. This module is part of what a watched
service loads, so it imports little.
"""

import ctypes
import os
from pathlib import Path

from headway.agent.headway_agent.library import ABI_VERSION
from headway.errors import NativeError

__all__ = ["headers_path", "library_path"]

_NAME = "libheadway.so"


def _candidates() -> list[Path]:
    named = os.environ.get("HEADWAY_NATIVE")
    if named:
        return [Path(named)]
    beside = Path(__file__).resolve().parent / "lib" / _NAME
    if beside.is_file():
        return [beside]
    # In an editable checkout, the library lies in site-packages.
    import sysconfig  # with its data, half a megabyte of a service's memory

    return [beside, Path(sysconfig.get_path("platlib")) / "headway" / "lib" / _NAME]


def _hint(installed: str) -> str:
    """Return the hint for a library that does not fit: `installed`, unless the environment names another library."""
    if os.environ.get("HEADWAY_NATIVE"):
        return "HEADWAY_NATIVE names it: unset this variable to use the installed library, or name another file"
    return installed


def headers_path() -> Path:
    """Return the folder with the public C headers of the library. Raises NativeError."""
    folder = library_path().parent.parent / "include"
    if not (folder / "headway" / "policy.h").is_file():
        raise NativeError(
            f"the headers are not in {folder}", hint="build them again: `make native`, or reinstall headway"
        )
    return folder


def library_path() -> Path:
    """Return the path of a shared library with the ABI version of this package.

    If `HEADWAY_NATIVE` is set, it names the library to use in place of the installed one.

    Raises:
        NativeError: There is no library, it does not load, or it has another ABI version.
    """
    candidates = _candidates()
    archive = next((folder for folder in Path(__file__).parents if folder.is_file()), None)
    if archive is not None and not os.environ.get("HEADWAY_NATIVE"):
        raise NativeError(
            f"the native library cannot be loaded from an archive: headway is in {archive}",
            hint="unpack the archive before the program runs, as shiv and `pex --venv` do, or install headway beside it",
        )
    for path in candidates:
        if not path.is_file():
            continue
        try:
            found: int = ctypes.CDLL(str(path)).hw_abi_version()
        except (OSError, AttributeError) as error:
            raise NativeError(
                f"the native library {path} does not load: {error}",
                hint=_hint("build it again: `make native`, or reinstall headway with a C compiler present"),
            ) from error
        if found != ABI_VERSION:
            raise NativeError(
                f"the native library {path} has ABI version {found}, expected {ABI_VERSION}",
                hint=_hint("build it again: `make native`, or reinstall headway"),
            )
        return path
    raise NativeError(
        f"the native library was not found (looked for {', '.join(dict.fromkeys(map(str, candidates)))})",
        hint=_hint("headway was installed without a C compiler: install one, and reinstall headway"),
    )
