"""Asks the agent's `strangers.examine` a question in a fresh process, and returns its answer, however that ended."""

import contextlib
import json
import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from headway.advice.target import Target
from headway.agent import EXAMINE_BOOTSTRAP
from headway.host.endings import ended_by, tail_of
from headway.host.keeper import Keeper
from headway.lab.launching.launch import agent_process

__all__ = ["Answer", "ask"]

_STDERR_KEPT_BYTES = 16 * 1024
_CLOSED = 86
"""The exit code of `strangers.examine` if it cannot answer any more."""
_CLOSES = "closed a file descriptor that is not its own"


@final
@dataclass(frozen=True)
class Answer:
    """The answer of a process.

    Attributes:
        stages: The result of each stage.
        ended: How the process ended if not in order: "hung ...", "was killed by SIGSEGV ..."; otherwise "".
        stderr: The end of the process's output to stderr.
        hung: The process was killed because it did not end in time; its output has the stacks of its threads then.
    """

    stages: dict[str, dict[str, Any]] = field(default_factory=dict)
    ended: str = ""
    stderr: str = ""
    hung: bool = False

    def __getitem__(self, stage: str) -> dict[str, Any]:
        return self.stages.get(stage, {})


_DOING = {
    "module": "while its module was looked for",
    "import": "while its module was imported",
    "function": "while it was looked up",
    "inputs": "while its inputs were created",
    "call": "in its first call",
    "again": "when it was called again",
    "holds": "while its use of the GIL was profiled",
    "subinterpreter": "while its module was imported in a sub-interpreter",
    "thread": "when it was called in a thread",
}
_LAST = {"function": "again"}
"""The last stage of a question, if it has another name than the question."""


def ask(
    what: str,
    target: Target,
    executable: str,
    cores: Sequence[int],
    *,
    limit_s: float,
    paths: Sequence[str] = (),
    keeper: Keeper | None = None,
    **more: object,
) -> Answer:
    """Ask one question.

    Args:
        what: The question, as `strangers.examine` names it.
        target: The function that it is about.
        executable: The interpreter.
        cores: The cores on which the process may run.
        limit_s: The process is killed when it has been in one stage for this time.
        paths: Folders of libraries for it.
        keeper: Ends the process if this process is killed.
        more: Further keys of the job.
    """
    job = {"what": what, "target": target.job(), "stacks_after_s": limit_s * 0.9, **more}
    reader, writer = os.pipe()
    with open(os.memfd_create("headway-stderr"), "w+b") as stderr:
        code: int | None = None
        try:
            with agent_process(
                executable,
                EXAMINE_BOOTSTRAP,
                (*target.paths, *paths),
                cores,
                writer,
                stderr,
                user_site=True,
                keeper=keeper,
            ) as process:
                os.close(writer)
                writer = -1
                assert process.stdin is not None
                with contextlib.suppress(BrokenPipeError), process.stdin:
                    process.stdin.write(json.dumps(job).encode())
                data, in_time = _read(reader, process, limit_s)
                code = _wait(process) if in_time else None
        except (OSError, subprocess.SubprocessError) as error:
            return Answer(ended=f"could not be started: {error}")
        finally:
            for fd in (reader, writer):
                if fd >= 0:
                    os.close(fd)
        said = tail_of(stderr, _STDERR_KEPT_BYTES)
    stages, begun, which = _stages(data)
    doing = _DOING.get(begun, "before it started")
    if which:
        doing += f" with input {which} of {stages['inputs']['count']}"
    ended = ""
    if not in_time:
        ended = f"did not end within {limit_s:g} s {doing}"
    elif code is not None and code < 0:
        ended = f"was {ended_by(code)} {doing}"
    elif code == _CLOSED:
        ended = f"{_CLOSES} {doing}"
    elif not any("error" in one for one in stages.values()) and _LAST.get(what, what) not in stages:
        # A process that runs on has no way left to answer: the function closed it.
        ended = f"ended with {ended_by(code)} {doing}" if code is not None else f"{_CLOSES} {doing}"
    return Answer(stages, ended, said, not in_time)


def _wait(process: "subprocess.Popen[bytes]") -> int | None:
    try:
        return process.wait(1.0)
    except subprocess.TimeoutExpired:
        return None


def _read(reader: int, process: "subprocess.Popen[bytes]", limit_s: float) -> tuple[bytes, bool]:
    """Return everything that is written to the pipe, and whether the writer ended before a silence of `limit_s`."""
    parts: list[bytes] = []
    deadline_s = time.monotonic() + limit_s
    with selectors.DefaultSelector() as selector:
        selector.register(reader, selectors.EVENT_READ)
        while True:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return b"".join(parts), False
            if not selector.select(min(left_s, 0.2)):
                # A child that the function left behind may hold the pipe open.
                if process.poll() is not None:
                    return b"".join(parts), True
                continue
            part = os.read(reader, 1 << 16)
            if not part:
                return b"".join(parts), True
            parts.append(part)
            deadline_s = time.monotonic() + limit_s


def _stages(data: bytes) -> tuple[dict[str, dict[str, Any]], str, int]:
    """Return the results by stage, the last stage that was begun, and the number of the input that it was begun with."""
    stages: dict[str, dict[str, Any]] = {}
    begun, which = "", 0
    for line in data.split(b"\n"):
        try:
            answer = json.loads(line)
        except ValueError:
            continue  # cut off, or not written by the agent
        if isinstance(answer, dict):
            if "begun" in answer:
                begun, which = str(answer["begun"]), int(answer.get("which", 0))
            if "stage" in answer:
                stage = str(answer.pop("stage"))
                # Keep an error: a forked child may have reported it, and its parent goes on.
                if not stages.get(stage, {}).get("error"):
                    stages[stage] = answer
    return stages, begun, which
