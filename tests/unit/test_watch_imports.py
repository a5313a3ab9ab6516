"""The modules that watching or counting costs a service, and those of the watcher: a library in either is megabytes per process."""

import subprocess
import sys

import pytest

LARGE = ("_hashlib", "http.server", "numpy", "rich", "ssl", "tempfile")


@pytest.mark.parametrize("module", ["headway.live.watching", "headway.live.watcher", "headway.live.middleware"])
def test_what_is_always_on_is_small(module):
    """Neither a service nor the watcher loads a large library before it needs one."""
    code = f"import sys, {module}; print([one for one in {LARGE!r} if one in sys.modules])"

    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
