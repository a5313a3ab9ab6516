"""A service that has Headway on its `sys.path` in an unusual way is watched as any other."""

import os
import re
import shutil
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


REMOVES = """
import asyncio, os, sys, time

async def main():
    os.rename("site", "gone")
    await asyncio.sleep(0.1)
    time.sleep(0.4)
    await asyncio.sleep(0.01)
    sys.stdin.readline()

asyncio.run(main())
"""


def test_a_headway_that_is_removed_under_its_service_is_told(tmp_path):
    """No further process is watched then, nor is a stall explained by another Headway; a line says each."""
    shutil.copytree(Path(headway.__file__).parent, tmp_path / "site" / "headway")
    (tmp_path / "service.py").write_text(REMOVES)
    paths = [str(tmp_path / "site"), sysconfig.get_path("purelib")]
    begins = f"import sys; sys.path[:0] = {paths!r}; from headway.cli import main; sys.exit(main())"
    base = os.path.join(sys.base_exec_prefix, "bin", f"python{sys.version_info[0]}.{sys.version_info[1]}")
    command = [base, "-S", "-c", begins, "watch", "--python", base, "service.py"]
    env = {"HEADWAY_NATIVE": str(library_path()), "PATH": os.environ["PATH"]}
    lines = []
    with subprocess.Popen(
        command, cwd=tmp_path, env=env, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as service:
        for line in service.stderr:
            lines.append(line)
            if all(any(word in one for one in lines) for word in ("are not watched", "could not be explained")):
                break
        service.communicate("\n", LIMIT_S)

    said = "".join(lines)
    assert re.search(
        r"Headway was removed or replaced since .*startup.zip is gone\): processes that begin now are", said
    )
    assert "a stall could not be explained, as Headway was removed or replaced since the watch began" in said
    assert "Traceback" not in said
    assert service.returncode == 0
