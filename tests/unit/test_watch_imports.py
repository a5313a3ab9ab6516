"""The modules that watching or counting costs a service, and those of the watcher: a library in either is megabytes per process."""

import subprocess
import sys

import pytest

LARGE = ("_hashlib", "http.server", "numpy", "rich", "ssl", "tempfile")
LARGE_IN_A_SERVICE = ("dataclasses", "inspect", "platform", "sysconfig")
"""Together more than a megabyte, if the service has none of them itself."""

LARGE_AT_A_START = ("headway.live.watching", "json", "socket", "subprocess")
"""Each Python that starts below a service joins its watch: a health check, a job of cron, a process of a pool."""


@pytest.mark.parametrize(
    ("module", "large"),
    [
        ("headway.live.joining", LARGE + LARGE_IN_A_SERVICE + LARGE_AT_A_START),
        ("headway.live.watching", LARGE + LARGE_IN_A_SERVICE),
        ("headway.live.watcher", LARGE),
        ("headway.live.middleware", LARGE),
        ("headway.live.metrics", LARGE),
    ],
)
def test_what_is_always_on_is_small(module, large):
    """Neither a service nor the watcher loads a large library before it needs one."""
    code = f"import sys, {module}; print([one for one in {large!r} if one in sys.modules])"

    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
