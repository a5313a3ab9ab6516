"""A service that has Headway on its `sys.path` in an unusual way is watched as any other."""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from real_programs import LIMIT_S

import headway
from headway.library import library_path

SERVICE = """
import asyncio, sys, time
sys.path[:0] = PATHS
import headway
watch = headway.watch("stalls")

async def main():
    await asyncio.sleep(0.5)
    time.sleep(0.4)
    await asyncio.sleep(0.01)

asyncio.run(main())
assert watch.finish(120)
"""


@pytest.mark.parametrize("way", ["by code", "by a relative path"])
def test_a_service_finds_headway_where_its_watcher_does_not(tmp_path, way):
    """The watcher, and the process that explains a stall, have the paths of the service."""
    paths = [str(Path(headway.__file__).parents[1]), sysconfig.get_path("purelib")]
    relative = os.pathsep.join(os.path.relpath(path, tmp_path) for path in paths)
    env = {"HEADWAY_NATIVE": str(library_path()), "PATH": os.environ["PATH"]}
    if way == "by a relative path":
        env["PYTHONPATH"] = relative
    program = tmp_path / "service.py"
    program.write_text(SERVICE.replace("PATHS", repr(paths if way == "by code" else [])))
    base = os.path.join(sys.base_exec_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    done = subprocess.run(
        [base, "-S", program], cwd=tmp_path, env=env, timeout=LIMIT_S, check=False, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert re.search(r"the event loop of MainThread stalled for \d.*service.py:\d+ main", done.stderr), done.stderr
    assert "could not be explained" not in done.stderr
