"""`headway advise` and `headway.advise()` as users run them: the answer, bad input, and cleaning up."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from advised_app import APP, interpreter, made
from real_programs import LIMIT_S
from waiting import wait_for

from headway import lab
from headway.cli import main
from headway.lab.launching.lock import only_lab

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

HEADWAY = [sys.executable, "-m", "headway"]


@pytest.fixture
def app(tmp_path, monkeypatch):
    """Return the folder with the functions, which is the working directory."""
    return made(tmp_path, monkeypatch)


def advised(*words, folder, check=True):
    done = subprocess.run(
        [*HEADWAY, "advise", *words], cwd=folder, capture_output=True, text=True, timeout=250, check=False
    )
    assert not check or done.returncode == 0, done.stderr
    assert "src/headway" not in done.stderr
    return done


def refused(words, capsys):
    """Return the exit code and the talk of advice that is not given; there is no text on standard output."""
    try:
        code = main(["advise", *words])
    except SystemExit as ended:  # of the parser of the command line
        code = ended.code
    said = capsys.readouterr()
    assert said.out == ""
    assert "src/headway" not in said.err
    return code, said.err


def test_a_function_is_advised_on(app):
    """A function that keeps the GIL in one C call gets an answer with reasons and launches."""
    done = advised(
        "app:match",
        "--json",
        "--budget",
        "12",
        "--interpreter",
        "none",
        "--python",
        interpreter().executable,
        folder=app,
    )
    found = json.loads(done.stdout)
    models = {one["model"]: one for one in found["contenders"]}
    assert set(models) == {"serial", "threads", "interpreters", "processes-forkserver"}
    assert all(one["failed"] == "" and one["call_s"]["value"] > 0 for one in models.values())
    assert models["processes-forkserver"]["worker_pss_bytes"] > 1 << 20
    assert found["holds"]["releases"] == "no"
    assert "re.Pattern.findall" in found["holds"]["longest"]["call"]
    assert "from app import match" in found["code"]
    (app / "pasted.py").write_text(found["code"] + "\nif __name__ == '__main__':\n    print(len(results))\n")
    pasted = subprocess.run(
        [interpreter().executable, "pasted.py"], cwd=app, capture_output=True, text=True, timeout=120, check=False
    )
    assert int(pasted.stdout.split()[-1]) > 0, pasted.stderr
    run = lab.load_run(found["run"])
    assert {one.cell.series for one in run.of("advise app:match")} == set(models)
    assert run.header.complete


def test_text_is_readable_and_the_run_is_reported(app):
    """The text in a pipe has no colour, and the page and the run's tables are there."""
    done = advised("app:count", "--budget", "5", "--interpreter", "none", "--html", "page.html", folder=app)
    assert "serial calls" in done.stdout.splitlines()[1]
    assert "Code to paste" in done.stdout
    assert "\x1b" not in done.stdout
    assert (app / "page.html").stat().st_size > 10_000
    report = subprocess.run([*HEADWAY, "report"], capture_output=True, text=True, check=True, timeout=60)
    assert "Which concurrency model for app:count?" in report.stdout


def test_coroutines_run_side_by_side(app):
    """Coroutines that wait are advised to be gathered.

    The race ends when it is decided; on a busy machine that takes longer than its default, and the shorter the waits are,
    the longer they leave it open.
    """
    words = ("app:wait", "--args", "[0.2]", "--json", "--budget", "150", "--interpreter", "none")
    done = advised(*words, folder=app)
    found = json.loads(done.stdout)
    assert found["verdict"]["model"] == "asyncio"
    assert found["verdict"]["outcome"] == "faster"
    assert "asyncio.gather" in found["code"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["app"], "names no function"),
        (["app:raises", "--budget", "5"], "ValueError: no platform"),
        (["app:count", "--args", "{"], "are not JSON"),
        (["app:count", "--budget", "1"], "not a number of seconds"),
        (["app:count", "--observe", ""], "`--observe` has an empty command"),
        (["app:count", "--html", "no/such/folder.html"], "is not there"),
    ],
)
def test_bad_input_is_told(app, capsys, words, said):
    """Bad input is an error before any long work, with a hint, and nothing on stdout."""
    code, told = refused(words, capsys)
    assert code == 2
    assert said in told
    assert "hint:" in told


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["app:count", "--python", "no-such-python"], 3, "no-such-python"),
        (["app:count", "--interpreter", "9.9"], 3, "no interpreter is called `9.9`"),
        (["app:count", "--interpreter", "9.9", "--observe", "touch observed"], 3, "no interpreter is called `9.9`"),
        (["nowhere_to_be_found:f"], 2, "No module named 'nowhere_to_be_found'"),
        (["app:count", "--inputs", "nowhere_to_be_found:f"], 2, "its inputs cannot be created: ModuleNotFoundError"),
    ],
)
def test_bad_input_is_told_while_another_lab_is_measuring(app, capsys, words, code, said):
    """Names that cannot be right are told before the lock on measuring is taken, and before a command is observed."""
    with only_lab():
        found, told = refused(words, capsys)
    assert found == code
    assert said in told
    assert "is measuring" not in told
    assert not (app / "observed").exists()


def test_one_launch_gives_no_verdict_and_the_reasons_agree_with_the_table(app):
    """Too small a budget leaves serial calls, with no test; a call takes as long in the reasons as in the table."""
    words = ("app:grows", "--args", "[[3, 2, 1]]", "--budget", "5", "--interpreter", "none", "--json")
    (app / "app.py").write_text(APP + "\ndef grows(values):\n    values.append(1)\n    return sorted(values)\n")
    found = json.loads(advised(*words, folder=app).stdout)
    assert found["verdict"]["model"] == "serial"
    assert found["verdict"]["outcome"] != "faster"
    if any(one["launches"] == 1 for one in found["contenders"] if one["model"] == "processes-forkserver"):
        # One launch rules out only what pickling rules out, too.
        pays_to_send = found["function"]["pickle_s"] < found["function"]["call_s"]
        assert found["verdict"]["outcome"] == ("unsure" if pays_to_send else "no difference")
    assert found["test"] == ""
    assert found["function"]["call_s"] == found["contenders"][0]["call_s"]["value"] < 20e-6


def _alive(mark):
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{entry}/cmdline").read_bytes():
                    found.append(int(entry))
    return found


def test_processes_that_a_function_leaves_are_ended(app):
    """Processes that a function leaves are ended, also those in sessions of their own."""
    mark = f"time.sleep({int(time.time() * 1000) % 10**6 + 10**6})"
    (app / "app.py").write_text(APP.replace("time.sleep(600)", mark))
    done = advised("app:starts", folder=app, check=False)
    assert "leaves a process behind" in done.stderr
    wait_for(lambda: not _alive(mark.encode()))  # a process that is killed needs a core to end


def test_ctrl_c_leaves_nothing(app):
    """Ctrl-C leaves no process and prints no traceback."""
    with subprocess.Popen(
        [*HEADWAY, "advise", "app:match", "--interpreter", "none"], cwd=app, stderr=subprocess.PIPE, text=True
    ) as process:
        for line in process.stderr:
            if "comparing models" in line:
                process.send_signal(signal.SIGINT)
                break
        process.stderr.read()
        assert process.wait(60) == 130
    deadline_s = time.monotonic() + LIMIT_S
    while mine := [one for one in _alive(b"headway_agent") if _of(one, app)]:
        assert time.monotonic() < deadline_s, mine
        time.sleep(0.01)


def _of(pid, folder):
    with contextlib.suppress(OSError):
        return str(folder).encode() in Path(f"/proc/{pid}/environ").read_bytes()
    return False


def test_the_function_of_a_script_is_advised_on(app):
    """A script's function is advised on under the `__main__` guard; without the guard, the error says what to do."""
    (app / "script.py").write_text(
        "import headway\n\ndef double(number):\n    return 2 * number\n\n"
        'if __name__ == "__main__":\n'
        "    found = headway.advise(double, [3, (4,)], budget_s=5, interpreters=[])\n"
        "    print(found.function.inputs, found.verdict.model)\n"
    )
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=app, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.stdout.split() == ["2", "serial"], done.stderr
    (app / "unguarded.py").write_text("import headway\ndef f(): pass\nheadway.advise(f)\n")
    done = subprocess.run(
        [sys.executable, "unguarded.py"], cwd=app, capture_output=True, text=True, check=False, timeout=200
    )
    assert '__name__ == "__main__"' in done.stderr
