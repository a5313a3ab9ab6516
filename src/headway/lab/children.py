"""What all processes that the lab starts have in common: what they inherit, and that they do not outlive us."""

import ctypes
import os
import signal
from collections.abc import Iterable

__all__ = ["clean_environment", "die_with"]

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


def clean_environment(paths: Iterable[str] = ()) -> dict[str, str]:
    """Return our environment without what steers a Python.

    Args:
        paths: What `PYTHONPATH` is to be; a variable and not `sys.path`, so that grandchildren and sub-interpreters have
            it too; where there are none it is unset.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON") and key != "VIRTUAL_ENV"}
    joined = os.pathsep.join(paths)
    return {**kept, "PYTHONPATH": joined} if joined else kept


def die_with(parent: int) -> None:
    """Make the kernel kill this process when its parent ends: prctl(2), PR_SET_PDEATHSIG. For `preexec_fn`.

    Args:
        parent: The process that should be our parent; where it has ended already we leave at once.
    """
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # It died before the line above.
