"""The output of a program that `headway top` starts: passed on, kept at its end, or in a file."""

import signal
import subprocess
import sys

import pytest
from waiting import wait_for

from headway.live import counted_run
from headway.live.counted_run import Beside
from headway.live.launch import original_environment

pytestmark = pytest.mark.slow

PRINTS = "print('long ' * 20_000)\nfor n in range(20_000): print('line', n)\n"


def ended(code, **options):
    """Return a program that ran to its end."""
    with Beside([sys.executable, "-c", code], **options) as program:
        program._child.wait()
    return program


def test_only_the_end_of_the_output_is_kept(tmp_path):
    """However much a program prints, its last lines are there, and no more than the bytes for them is kept."""
    program = ended(PRINTS)
    assert program.tail(2) == ["line 19998", "line 19999"]
    assert len(program._last) == counted_run._TAIL_BYTES

    output = tmp_path / "printed"
    assert ended(PRINTS, output=output).tail(2) == []
    assert output.read_text().endswith("line 19999\n")


def test_output_is_passed_on_whole_and_as_it_is(capfdbinary):
    """Every byte of stdout and stderr is passed on."""
    code = "import os; os.write(1, b'\\xff\\x1b[1m'); os.write(2, b'!\\n' * 100_000)"
    ended(code, passes_on=True)
    assert capfdbinary.readouterr().err == b"\xff\x1b[1m" + b"!\n" * 100_000


def test_a_program_has_the_environment_that_we_were_started_with(monkeypatch):
    """A variable of this process's own, as Python's LC_CTYPE in the C locale, is not the program's."""
    monkeypatch.setenv("LC_CTYPE", "ours")
    monkeypatch.delenv("PATH")
    code = "import os; print(os.environ.get('LC_CTYPE'), 'PATH' in os.environ)"

    assert ended(code).tail(1) == [f"{original_environment().get('LC_CTYPE')} True"]


def test_a_closed_stderr_does_not_stop_the_program(monkeypatch):
    """Without a stderr the output is kept all the same."""
    monkeypatch.setattr(sys, "stderr", None)
    assert ended(PRINTS, passes_on=True).tail(1) == ["line 19999"]


def test_a_process_that_is_left_over_does_not_keep_us(tmp_path, monkeypatch):
    """A process that a program leaves behind may keep the pipe open: its end is not awaited."""
    monkeypatch.setattr(counted_run, "_DRAINS_S", 0.1)
    code = "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True).pid, flush=True)"
    program = ended(code)
    left_over = wait_for(lambda: program.tail(1))  # the thread that reads may have had no core
    with subprocess.Popen(["kill", *left_over]) as killing:
        assert killing.wait() == 0
    program._reader.join()


def test_output_is_seen_while_the_program_runs(tmp_path):
    """Where no table is painted over, each line of the program is on stderr at once."""
    script = tmp_path / "up.py"
    script.write_text("import time\nprint('up', flush=True)\ntime.sleep(20)\nprint('down')\n")
    words = [sys.executable, "-m", "headway", "top", "--json", "--", str(script)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        said = watching.stderr.readline()
        watching.send_signal(signal.SIGINT)
        watching.communicate()
    assert said == "up\n"
