"""Tells which libraries of this process compute with threads of their own, and the variable that limits these.

Their threads are in no list of Python's, and each process has its own: in a pool of processes there are soon more of them
than cores.
"""

import re

from .. import proc

__all__ = ["loaded"]

_KINDS = (
    (re.compile(r"/lib[^/]*openblas[^/]*$"), "OpenBLAS", "OPENBLAS_NUM_THREADS"),
    (re.compile(r"/libmkl_[^/]*$"), "MKL", "MKL_NUM_THREADS"),
    (re.compile(r"/libblis[^/]*$"), "BLIS", "BLIS_NUM_THREADS"),
    (re.compile(r"/lib(gomp|omp|iomp5)[^/]*$"), "OpenMP", "OMP_NUM_THREADS"),
)
"""By the end of a mapped file's path: the library, and its variable."""


def loaded():
    """Return [library, variable] of each such library that this process has loaded; [] if the system does not tell."""
    try:
        paths = {line.split(None, 5)[5] for line in proc.read("/proc/self/maps").splitlines() if "/" in line}
    except (OSError, IndexError):
        return []
    return [[name, variable] for end, name, variable in _KINDS if any(end.search(path) for path in paths)]
