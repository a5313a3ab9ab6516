"""Run real programs on real interpreters with the library built under the address and undefined-behaviour sanitizers.

    sanitized_cpython.py [--python NAME]... [--case NAME]... [--how trace|POLICY]... [--quick]

Each program runs traced, and under each policy. A sanitizer's report fails it, and so does an exit code that differs
from that without Headway. The interpreters are not built with sanitizers: LD_PRELOAD loads the runtime of the address
sanitizer first, so it also checks the interpreter's allocations. The programs are those of
tests/integration/lifecycle_program.py and of sanitized_programs.py. The libraries of the latter are installed once for
each interpreter, in the cache.

`fork_storm` may fail with "no end" because of the sanitizer itself, about once in a hundred runs. gcc 12's runtime
keeps the locks of its allocator as they are in a forked child, where no thread releases what another thread held.

Exit codes: 0 nothing was found, 1 something was, 2 the program cannot run here.
"""

import argparse
import importlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from provision.locked_environment import kept

from headway.errors import HeadwayError
from headway.host.interpreters import Interpreter, discover, select
from headway.lab.beside.environments import find_uv
from headway.live.collect import collecting
from headway.live.launch import environment, scheduled_environment
from headway.native import policies

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "native-sanitized"
LIFECYCLE = ROOT / "tests" / "integration" / "lifecycle_program.py"
LIBRARY_PROGRAMS = ROOT / "tools" / "sanitized_programs.py"
LIBRARIES = ("greenlet", "gevent", "uvloop", "numpy")
PYTHONS = ("3.11", "3.12", "3.13", "3.14", "3.15")
QUICK_CASES = ("plain", "fork", "daemons", "interpreters", "crowd")
LIMIT_S = 300


def say(text: str) -> None:
    """Print a line on stderr."""
    print(text, file=sys.stderr, flush=True)


def tool(name: str) -> str:
    """Return the path of a program; if it is not on PATH, end with a message."""
    found = shutil.which(name)
    if found is None:
        say(f"{name} is not there, expected it on PATH")
        sys.exit(2)
    return found


def build() -> Path:
    """Build the library under both sanitizers; return its path."""
    configure = [tool("cmake"), "-S", str(ROOT / "native"), "-B", str(BUILD), "-DCMAKE_BUILD_TYPE=RelWithDebInfo"]
    configure += ["-DHEADWAY_SANITIZE=address,undefined", "--log-level=WARNING"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(
        [tool("cmake"), "--build", str(BUILD), "--target", "headway", "--parallel", "2"],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return BUILD / "libheadway.so"


def runtime(library: Path) -> str:
    """Return the address sanitizer's runtime that the library was linked to, or ""."""
    found = subprocess.run([tool("ldd"), str(library)], capture_output=True, text=True, check=False).stdout
    match = re.search(r"libasan\S* => (\S+)", found)
    return match.group(1) if match else ""


def installed(uv: str, interpreter: Interpreter, library: str) -> Path | None:
    """Install a library for an interpreter, once; return its folder, or None after a message with the reason."""
    command = [uv, "pip", "install", "--quiet", "--only-binary", ":all:", "--python", interpreter.executable]

    def fill(folder: Path) -> None:
        subprocess.run(
            [*command, "--target", str(folder), library], capture_output=True, text=True, check=True, timeout=LIMIT_S
        )

    try:
        return kept(f"sanitized-{interpreter.id}-{library}", fill)
    except subprocess.CalledProcessError as error:
        say(f"! {interpreter.id}: {library} cannot be installed: {' '.join(error.stderr.split())[:200]}")
        return None


class Runner:
    """Runs one program in one way, with and without Headway."""

    def __init__(self, library: Path, preload: str) -> None:
        """Take the sanitized library and the runtime that is to be loaded first."""
        self._library, self._preload = library, preload
        self._bare: dict[tuple[str, ...], int | str] = {}

    def problem(self, command: list[str], how: str, more: dict[str, str]) -> str:
        """Run a program; return what is wrong, or ""."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            expected = self._bare.get(tuple(command))
            if expected is None:
                expected = self._bare[tuple(command)] = self._run(command, self._base(folder / "bare", more), folder)
            env = self._base(folder / "report", more)
            with ExitStack() as collector:
                if how == "trace":
                    door = collector.enter_context(collecting(folder / "x.hwt"))
                    env = environment(door.environment(), base=env)
                else:
                    env = scheduled_environment(how, base=env)
                env["HEADWAY_NATIVE"] = str(self._library)
                ended = self._run(command, env, folder)
            reports = [path.read_text(errors="replace") for path in sorted(folder.glob("report.*"))]
            ours = [text for text in reports if "libheadway" in text or "native/" in text]
        if ours or (reports and expected == 0):
            return (ours or reports)[0]
        if ended != expected:
            return f"it ended with {ended}, expected {expected}"
        return ""

    def _base(self, reports: Path, more: dict[str, str]) -> dict[str, str]:
        plain = {key: value for key, value in os.environ.items() if not key.startswith(("HEADWAY_", "PYTHON"))}
        # Greenlets switch stacks without the sanitizer's knowledge, so it must not keep locals on stacks of its own.
        asan = f"detect_leaks=0:verify_asan_link_order=0:detect_stack_use_after_return=0:log_path={reports}"
        return {
            **plain,
            **more,
            "LD_PRELOAD": self._preload,
            "ASAN_OPTIONS": asan,
            "UBSAN_OPTIONS": f"print_stacktrace=1:log_path={reports}",
        }

    @staticmethod
    def _run(command: list[str], env: dict[str, str], folder: Path) -> int | str:
        """Return the exit code, or what went wrong. A line of Headway counts: it reports something left undone."""
        try:
            done = subprocess.run(
                command, env=env, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S
            )
        except subprocess.TimeoutExpired:
            return f"no end within {LIMIT_S} s"
        lines = [line for line in done.stderr.splitlines() if line.startswith("headway: ")]
        return lines[0] if lines else done.returncode


def cases(arguments: argparse.Namespace, interpreter: Interpreter) -> list[tuple[str, list[str], dict[str, str]]]:
    """Return the programs for an interpreter, as (name, command, environment)."""
    sys.path.insert(0, str(LIFECYCLE.parent))
    names = QUICK_CASES if arguments.quick else tuple(importlib.import_module("lifecycle_program").CASES)
    found: list[tuple[str, list[str], dict[str, str]]] = [
        (name, [interpreter.executable, str(LIFECYCLE), name], {}) for name in names
    ]
    uv = "" if arguments.quick else find_uv()
    for library in LIBRARIES if uv else ():
        folder = installed(uv, interpreter, library)
        if folder is not None:
            command = [interpreter.executable, str(LIBRARY_PROGRAMS), library]
            found.append((library, command, {"PYTHONPATH": str(folder)}))
    return [one for one in found if not arguments.case or one[0] in arguments.case]


def chosen(names: Sequence[str]) -> list[Interpreter]:
    """Return the interpreters of these names, or those of `PYTHONS` that this machine has, and say which it lacks.

    Raises:
        HeadwayError: An interpreter that was named is not there, or there is none at all.
    """
    found = discover()[0]
    if names:
        return select(found, names)
    have = {one.name for one in found}
    for name in PYTHONS:
        if name not in have:
            say(f"leaving out {name}, which is not on this machine; `headway interpreters --add {name}` may add it")
    return select(found, [name for name in PYTHONS if name in have] or PYTHONS)


def main() -> int:
    """Build the library, run everything, and report what was found."""
    try:
        return run_all()
    except HeadwayError as error:
        say(f"error: {error}")
        if error.hint:
            say(f"hint: {error.hint}")
        return 2


def run_all() -> int:
    """Carry out the command line; return the exit code. Raises HeadwayError."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--python", action="append", metavar="NAME", help=f"an interpreter (preset: {', '.join(PYTHONS)})"
    )
    parser.add_argument("--case", action="append", metavar="NAME", help="a program (preset: all)")
    parser.add_argument("--how", action="append", metavar="HOW", help="`trace`, or a policy (preset: all)")
    parser.add_argument("--quick", action="store_true", help="a few programs, and no libraries")
    arguments = parser.parse_args()
    found = chosen(arguments.python or ())
    library = build()
    preload = runtime(library)
    if not preload:
        say("the library is not linked to the address sanitizer's runtime, expected libasan (gcc)")
        return 2
    runner = Runner(library, preload)
    hows = arguments.how or ["trace", *(one.name for one in policies()[0])]
    tasks = [
        (f"{interpreter.name} {name} {how}", command, how, more)
        for interpreter in found
        for name, command, more in cases(arguments, interpreter)
        for how in hows
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = 0
        for task, problem in zip(tasks, pool.map(lambda task: runner.problem(*task[1:]), tasks), strict=True):
            if problem:
                say(f"== {task[0]}\n{problem}")
                failed += 1
    say(f"{len(tasks)} programs under sanitizers, {failed} with a report or another end")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
