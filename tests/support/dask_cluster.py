"""A real Dask cluster for tests: a scheduler, and workers that each have a loopback address of their own."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

from ports import free_port

from headway.library import library_path

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 120


def wait_for(condition, what):
    """Wait until `condition` is true and return its value; fail if it never is."""
    deadline = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


def environment(folder):
    """Return the environment of a program of Dask whose modules are in `folder`."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HEADWAY_WATCH"))}
    return env | {
        "HEADWAY_NATIVE": str(library_path()),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(folder)]),
        "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10 minutes",
    }


class Cluster:
    """A scheduler and workers w1, w2, ... at 127.0.0.2, 127.0.0.3, ...; their processes end when `stack` is closed."""

    def __init__(self, python, folder, stack, *, workers=2, nannies=False, **variables):
        self.python = str(python)
        self.folder = folder
        self.stack = stack
        self.env = environment(folder)
        port = free_port()
        self.address = f"tcp://127.0.0.1:{port}"
        self._said = (folder / "said").open("w+")
        stack.callback(self._said.close)
        self._start("dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
        self.workers = [
            self._start(
                *("dask_worker", self.address, "--host", f"127.0.0.{1 + number}", "--name", f"w{number}"),
                *("--nthreads", "2", "--nanny" if nannies else "--no-nanny", "--no-dashboard"),
                *("--local-directory", str(folder / f"w{number}")),
                **{name: value.format(number=number) for name, value in variables.items()},
            )
            for number in range(1, workers + 1)
        ]
        wait_for(lambda: len(self.look()["workers"]) == workers, "the workers did not come")

    def _start(self, module, *arguments, **variables):
        process = subprocess.Popen(
            [self.python, "-m", f"distributed.cli.{module}", *arguments],
            env=self.env | variables,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=self._said,
            start_new_session=True,
        )

        def stop():
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

        self.stack.callback(stop)
        return process

    def headway(self, *arguments):
        """Run a `headway` command to its end."""
        return subprocess.run(
            [self.python, "-m", "headway", *arguments],
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )

    def look(self, interval_s=0.2):
        """Return what one `headway dask --json` reports; its shares are of the interval."""
        done = self.headway("dask", self.address, "--json", "--count", "1", "--interval", str(interval_s))
        return json.loads(done.stdout) if done.returncode == 0 else {"workers": []}
