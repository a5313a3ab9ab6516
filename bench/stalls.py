"""Cause stalls in real servers, and check what `headway watch` reports of them: right, wrong, or not seen.

Each kind of server (asyncio, uvloop, gunicorn's threads, waitress, a Dask worker) runs a program under `headway watch`.
The program has stalls of known causes and lengths, one after the other (stalls_workload.py). A report is right if the
watcher's log has a stall at that time with the real cause, and with a line in the function that caused it. Of two
causes at once both must be reported, each with a share within 0.15 of its own.

    python bench/stalls.py [--stalls 200] [--server asyncio ...] [--seed 1] [--over-ms 40] [--peers] [--json]
"""

import argparse
import dataclasses
import json
import math
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from headway.lab import discover, select
from headway.lab.beside.servers import free_port
from headway.live.launch import original_environment

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
from provision.locked_environment import locked_python  # noqa: E402

WORKLOAD = Path(__file__).with_name("stalls_workload.py")
LOCK = ROOT / "requirements" / "watched.lock"
SERVERS = ("asyncio", "uvloop", "gthread", "waitress", "dask")
OF_A_LOOP = (
    "own_python",
    "own_call",
    "gc",
    "gc_other",
    "gil_call",
    "gil_python",
    "blocked_sleep",
    "blocked_process",
    "blocked_lock",
    "blocked_socket",
    "blocked_queue",
    *("core",) * 7,
    *("own_python", "gc", "gil_call"),
    *("own_python+blocked_sleep", "gc+blocked_lock") * 2,
)
CAUSES = {"own": "own code", "gc": "garbage collection", "gil": "GIL", "blocked": "blocking call", "core": "no core"}
FUNCTIONS = {"gc": "collect", "gc_other": "collect"}
SHARE = 0.15
KNOCKED = 0.5
"""From there on gilknocker's metric says that the GIL is in the way."""
SETTLE_S = 4.0
PATIENCE_S = 120


@dataclasses.dataclass(frozen=True)
class Put:
    """A stall that was caused in a server."""

    server: str
    causes: tuple[str, ...]
    since_ns: int
    until_ns: int
    took: tuple[float, ...]
    """Of two causes, how long each took, in s."""
    peers: dict[str, Any]
    """By tool, what it had of it; {}: none was there."""


def cause_of(name: str) -> str:
    """Return the cause that the watcher must report."""
    return CAUSES[name.split("_", maxsplit=1)[0]]


def plan(server: str, count: int, draw: random.Random) -> list[tuple[str, float]]:
    """Return this many stalls: each cause in turn, with lengths from 60 ms to 1.5 s, and one of 5 s."""
    kinds = [one for one in OF_A_LOOP if server in {"asyncio", "uvloop"} or one != "core"]
    kinds = [
        one
        for one in kinds
        if server != "dask" or one in {"own_python", "own_call", "blocked_sleep", "gil_call", "gc_other"}
    ]
    chosen = [kinds[place % len(kinds)] for place in range(count)]
    draw.shuffle(chosen)
    found = [(one, round(math.exp(draw.uniform(math.log(0.06), math.log(1.5))), 3)) for one in chosen]
    longest = next(place for place, (one, _) in enumerate(found) if not one.startswith("gc"))
    found[longest] = (found[longest][0], 5.0)
    # Each of two causes must last long enough to be seen.
    return [(one, max(seconds, 0.2) if "+" in one or one.startswith("gc") else seconds) for one, seconds in found]


def wait_for(port: int) -> None:
    """Wait until a server listens on the port."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit(f"nothing listens at {port}")


def command(server: str, python: str, port: int, stalls: str) -> list[str]:
    """Return the command that is started under the watcher."""
    folder = str(Path(python).parent)
    if server in {"asyncio", "uvloop"}:
        return [python, str(WORKLOAD), server, stalls]
    if server == "gthread":
        options = ["-k", "gthread", "--threads", "4", "-w", "1", "-b", f"127.0.0.1:{port}", "--timeout", "120"]
        return [f"{folder}/gunicorn", *options, "--chdir", str(WORKLOAD.parent), "stalls_workload:application"]
    if server == "waitress":
        return [f"{folder}/waitress-serve", f"--listen=127.0.0.1:{port}", "--threads=4", "stalls_workload:application"]
    return [python, str(WORKLOAD.with_name("stalls_dask_workload.py")), "worker", str(port)]


def run(
    server: str, python: str, stalls: list[tuple[str, float]], over_ms: int, folder: Path, *, peers: bool = False
) -> tuple[list[Put], list[dict[str, Any]]]:
    """Run a server with the planned stalls; return the stalls that it had, and the log of the watcher."""
    port = free_port()
    env = original_environment() | {"STALLS_PORT": str(port), "PYTHONPATH": str(WORKLOAD.parent)}
    env |= {"STALLS_PEERS": str(over_ms / 1e3)} if peers else {}
    watch = [sys.executable, "-m", "headway", "watch", "-o", str(folder), "--quiet", "--over", f"{over_ms}ms"]
    watch += ["--requests-over", f"{over_ms}ms", "--keep", "1000", "--ring", "16MB", "--"]
    text = json.dumps(stalls)
    program = subprocess.Popen(
        [*watch, *command(server, python, port, text)],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        if server in {"asyncio", "uvloop"}:
            told, _ = program.communicate(timeout=len(stalls) * 10 + PATIENCE_S)
        else:
            if server != "dask":
                wait_for(port)
            asking = [python, str(WORKLOAD), "served", text]
            if server == "dask":
                asking = [python, str(WORKLOAD.with_name("stalls_dask_workload.py")), "client", str(port), text]
            told = subprocess.run(
                asking, env=env, capture_output=True, text=True, timeout=len(stalls) * 10 + PATIENCE_S, check=True
            ).stdout
            time.sleep(SETTLE_S)
            os.killpg(program.pid, signal.SIGTERM)
            program.wait(PATIENCE_S)
    finally:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
    time.sleep(SETTLE_S)
    put = [
        Put(server, tuple(row["causes"]), row["since_ns"], row["until_ns"], tuple(row["took"]), row.get("peers", {}))
        for row in map(json.loads, told.splitlines())
        if row["causes"] != ["setup"]
    ]
    rows = [json.loads(line) for log in folder.glob("*.stalls.jsonl") for line in log.read_text().splitlines()]
    return put, rows


def judge(one: Put, rows: list[dict[str, Any]]) -> tuple[str, str]:
    """Return `right`, `wrong`, `line` or `not seen`, and what the watcher reported."""
    length_ns = one.until_ns - one.since_ns
    sums: dict[str, float] = defaultdict(float)
    functions: dict[str, Counter[str]] = defaultdict(Counter)
    told_s = 0.0
    for row in rows:
        if row["goes_on"] or row["kind"] == "thread":
            continue
        since_ns, until_ns = row["since_ns"], row["since_ns"] + row["length_s"] * 1e9
        within = min(until_ns, one.until_ns) - max(since_ns, one.since_ns)
        if within <= 0.5 * (until_ns - since_ns):
            continue
        told_s += row["length_s"]
        for part in row["parts"]:
            sums[part["cause"]] += part["time_s"]
            names = {frame["function"] for frame in part["stack"]}
            for name in names:
                functions[part["cause"]][name] += 1
    if not told_s:
        return "not seen", "-"
    text = ", ".join(f"{cause} {share / told_s:.2f}" for cause, share in sorted(sums.items(), key=lambda x: -x[1])[:3])
    wanted = [cause_of(name) for name in one.causes]
    if len(wanted) == 1:
        if max(sums, key=lambda cause: sums[cause]) != wanted[0]:
            return "wrong", text
    elif any(abs(sums[cause] - s) * 1e9 > SHARE * length_ns for cause, s in zip(wanted, one.took, strict=True)):
        return "wrong", text
    for name, cause in zip(one.causes, wanted, strict=True):
        function = FUNCTIONS.get(name, name)
        if cause != "no core" and not functions[cause][function]:
            return "line", f"{text}; seen in {', '.join(functions[cause]) or 'no line'}"
    return "right", text


def judge_peer(tool: str, found: Any, one: Put) -> tuple[bool, bool, bool]:
    """Return whether another tool saw a stall, had the function that caused it, and named the cause.

    A dump of all threads, and the log of a slow callback, name no cause; they may contain the function. gilknocker says
    whether a thread had to wait for the GIL, which is the cause if another thread holds it.
    """
    functions = {FUNCTIONS.get(name, name) for name in one.causes if name != "core"}
    if tool == "gilknocker":
        is_seen = found > KNOCKED
        return is_seen, False, is_seen and [cause_of(name) for name in one.causes] == ["GIL"]
    has_it = bool(functions) and all(re.search(rf"\b{name}\b", found) is not None for name in functions)
    return bool(found), has_it, False


def print_peers(outcomes: list[tuple[Put, str, str]]) -> None:
    """Print what each tool reported of the same stalls; a stall for want of a core has no function that caused it."""
    put = [(one, verdict) for one, verdict, _ in outcomes if one.peers]
    done = sum(one.causes != ("core",) for one, _ in put)
    columns = f"{'seen':>7} {f'function of {done}':>16} {'cause':>7} {'cause, wrongly':>15}"
    print(f"\n{f'the same {len(put)} stalls':26} {columns}")
    ours = Counter(verdict for _, verdict in put)
    named = sum(verdict == "right" for one, verdict in put if one.causes != ("core",))
    told = ours["right"] + ours["line"]
    print(f"{'headway watch':26} {len(put) - ours['not seen']:7} {named:16} {told:7} {ours['wrong']:15}")
    for tool in put[0][0].peers if put else ():
        judged = [judge_peer(tool, one.peers[tool], one) for one, _ in put]
        seen, functions, causes = (sum(column) for column in zip(*judged, strict=True))
        wrongly = seen - causes if tool == "gilknocker" else 0
        print(f"{tool:26} {seen:7} {functions:16} {causes:7} {wrongly:15}")


def main() -> None:
    """Run the chosen servers, judge the reports, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--stalls", type=int, default=200)
    parser.add_argument("--server", action="append", choices=SERVERS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--over-ms", type=int, default=40)
    parser.add_argument("--interpreter", default="3.13")
    parser.add_argument(
        "--peers", action="store_true", help="have other tools see the same stalls (asyncio and uvloop)"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    servers = options.server or (["asyncio", "uvloop"] if options.peers else list(SERVERS))
    weights = {"asyncio": 0.3, "uvloop": 0.26, "gthread": 0.17, "waitress": 0.17, "dask": 0.1}
    all_of_them = sum(weights[one] for one in servers)
    python = locked_python(select(discover()[0], [options.interpreter])[0], LOCK, "watched")
    draw = random.Random(options.seed)
    outcomes: list[tuple[Put, str, str]] = []
    for server in servers:
        count = round(options.stalls * weights[server] / all_of_them)
        with tempfile.TemporaryDirectory(prefix="stalls-") as folder:
            print(f"{server}: {count} stalls", file=sys.stderr)
            put, rows = run(
                server, python, plan(server, count, draw), options.over_ms, Path(folder), peers=options.peers
            )
        # A call of C may be shorter than planned. A stall that is too short for the limit need not be seen.
        put = [one for one in put if one.until_ns - one.since_ns > 1.25e6 * options.over_ms]
        outcomes += [(one, *judge(one, rows)) for one in put]
    if options.json:
        print(
            json.dumps(
                [dataclasses.asdict(one) | {"verdict": verdict, "told": text} for one, verdict, text in outcomes]
            )
        )
        return
    for one, verdict, text in outcomes:
        if verdict != "right":
            seconds = (one.until_ns - one.since_ns) / 1e9
            print(f"{verdict:9} {one.server:9} {'+'.join(one.causes):26} {seconds:6.3f} s: {text}")
    print(f"\n{'':26} {'stalls':>7} {'right':>7} {'line':>7} {'wrong':>7} {'not seen':>9}")
    groups: dict[str, list[str]] = defaultdict(list)
    for one, verdict, _ in outcomes:
        groups[one.server].append(verdict)
        groups["+".join(dict.fromkeys(cause_of(name) for name in one.causes))].append(verdict)
        groups["all"].append(verdict)
    for name, verdicts in groups.items():
        counts = Counter(verdicts)
        print(
            f"{name:26} {len(verdicts):7} {counts['right']:7} {counts['line']:7} {counts['wrong']:7} {counts['not seen']:9}"
        )
    if options.peers:
        print_peers(outcomes)


if __name__ == "__main__":
    main()
