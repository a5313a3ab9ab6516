"""`headway trace` of a program in C that loads libpython, and begins and ends Python twice."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from headway.live.files import wait_until_finished
from headway.traces.reader import read

HEADWAY = str(Path(sys.executable).with_name("headway"))
LIMIT_S = 60
LIBPYTHON = Path(sysconfig.get_config_var("LIBDIR") or "") / (sysconfig.get_config_var("LDLIBRARY") or "none")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler"),
    pytest.mark.skipif(LIBPYTHON.suffix != ".so" or not LIBPYTHON.is_file(), reason="this Python has no libpython"),
]

HOST = r"""
#include <dlfcn.h>

int main(int count, char **words) {
    void *python = dlopen(words[1], RTLD_NOW | (count > 2 ? RTLD_GLOBAL : RTLD_LOCAL));
    if (python == 0) {
        return 2;
    }
    void (*begin)(void) = (void (*)(void))dlsym(python, "Py_Initialize");
    int (*run)(const char *) = (int (*)(const char *))dlsym(python, "PyRun_SimpleString");
    int (*end)(void) = (int (*)(void))dlsym(python, "Py_FinalizeEx");
    for (int round = 0; round < 2; round++) {
        begin();
        if (run("import threading\n"
                "one = threading.Thread(target=int, name='worker')\n"
                "one.start()\n"
                "one.join()\n") != 0 || end() != 0) {
            return 3;
        }
    }
    return 0;
}
"""


def traced(folder: Path, *words: str) -> str:
    """Trace the program, and return what it and Headway said."""
    (folder / "host.c").write_text(HOST)
    subprocess.run(["cc", "-o", "host", "host.c", "-ldl"], cwd=folder, check=True, timeout=LIMIT_S)
    command = [HEADWAY, "trace", "-o", "x.hwt", "./host", str(LIBPYTHON), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr
    return done.stderr


def test_threads_of_each_beginning_have_their_names(tmp_path):
    """The recording goes on when Python is begun again, and so do the names of its threads."""
    said = traced(tmp_path, "global")
    wait_until_finished(tmp_path / "x.hwt")

    assert "is not traced" not in said
    assert [one.name for one in read(tmp_path / "x.hwt").threads].count("worker") == 2


def test_a_python_whose_symbols_are_hidden_is_told(tmp_path):
    """No extension module loads there: a line says so, and what helps, each time that Python begins."""
    said = traced(tmp_path)

    assert "is not traced" in said
    assert "load libpython with RTLD_GLOBAL" in said
    assert "undefined symbol" not in said
