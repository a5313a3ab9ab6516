"""The controller's only door to the shared library: where it is, and whether it fits.

The C limits run inside launches, where the agent binds the functions it needs; this module finds the file and checks
its ABI once, so that a plan knows before it starts whether the native cells can run.
"""

import ctypes
import os
import sysconfig
from pathlib import Path

from headway.errors import NativeError

__all__ = ["ABI_VERSION", "library_path"]

ABI_VERSION = 4
"""HW_ABI_VERSION of native/include/headway/version.h that this package was written for."""

_NAME = "libheadway.so"


def _candidates() -> list[Path]:
    named = os.environ.get("HEADWAY_NATIVE")
    if named:
        return [Path(named)]
    # Beside the package in a wheel; in site-packages when the package itself is an editable checkout.
    return [
        Path(__file__).resolve().parent / "lib" / _NAME,
        Path(sysconfig.get_path("platlib")) / "headway" / "lib" / _NAME,
    ]


def library_path() -> Path:
    """Return the path of a shared library with our ABI.

    `HEADWAY_NATIVE` names another file than the installed one.

    Raises:
        NativeError: No library is there, or it does not load, or its ABI version is another.
    """
    candidates = _candidates()
    for path in candidates:
        if not path.is_file():
            continue
        try:
            found: int = ctypes.CDLL(str(path)).hw_abi_version()
        except (OSError, AttributeError) as error:
            raise NativeError(
                f"the native library {path} does not load: {error}",
                hint="build it again: `make native`, or reinstall headway with a C compiler present",
            ) from error
        if found != ABI_VERSION:
            raise NativeError(
                f"the native library {path} has ABI version {found}, expected {ABI_VERSION}",
                hint="build it again: `make native`, or reinstall headway",
            )
        return path
    raise NativeError(
        f"the native library is not there (looked for {', '.join(map(str, candidates))})",
        hint="headway was installed without a C compiler; install one and reinstall, or go on without the native cells",
    )
