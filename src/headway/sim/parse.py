"""Reads a Scenario from a TOML file. docs/guides/simulate.md describes the file."""

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from headway.errors import ScenarioError
from headway.sim.check import MOST_THREADS, check
from headway.sim.lines import numbered
from headway.sim.program import steps
from headway.sim.scenario import (
    MAIN,
    NO_PROCESS,
    PLACEMENTS,
    STOCK,
    Client,
    Placement,
    Process,
    Queue,
    Role,
    Scenario,
    Semaphore,
    ends,
)
from headway.sim.table import Table

__all__ = ["parse", "read"]

_MOST_CORES = 64
_MOST_COUNT = 2**31 - 1
_MOST_TO_END_NS = 100_000_000_000
"""A program whose threads all end is simulated for so long at most, if its file names no duration."""


def read(path: Path) -> Scenario:
    """Read a file. Relative paths of policies begin at the file's folder.

    Raises:
        ScenarioError: The file does not exist, is not TOML, or makes no sense.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(
            f"the scenario {path} cannot be read: {getattr(error, 'strerror', None) or error}",
            hint="name a file, or a scenario of `headway simulate --list`",
        ) from error
    return parse(text, name=path.stem, source=path.name, folder=path.parent)


def parse(text: str, *, name: str, source: str = "", folder: Path | None = None) -> Scenario:
    """Return the scenario that a text describes.

    Args:
        text: The text, in TOML.
        name: The name of the scenario.
        source: The name of its file, for errors and for the frames of a trace.
        folder: The folder where relative paths of policies begin.

    Raises:
        ScenarioError: The text is not TOML, or makes no sense.
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError(
            f"{source or name} is not TOML: {error}", hint="strings need quotes, tables brackets"
        ) from error
    scenario = _scenario(values, name, source or f"{name}.toml", folder)
    check(scenario)
    return numbered(scenario, text)


def _scenario(values: Mapping[str, Any], name: str, source: str, folder: Path | None) -> Scenario:
    top = Table(values, "")
    title = top.text("title", name)
    cores = top.whole("cores", 2, 1, _MOST_CORES)
    placement = cast("Placement", top.text("placement", "free", one_of=PLACEMENTS))
    busy = top.text("busy")
    preset = _process(top, MAIN, Process(), folder)
    processes = {one: _process(table, one, preset, folder, end=True) for one, table in top.tables("process").items()}
    if NO_PROCESS in processes:
        raise ScenarioError(f"process.{NO_PROCESS} is reserved for processes without Python, expected another name")
    roles = tuple(_role(table, one, cores) for one, table in top.tables("role").items())
    preset_ns = _MOST_TO_END_NS if ends(roles) else Scenario.duration_ns
    duration_ns = top.moment("duration", preset_ns, above=True)
    warm_ns = top.moment("warm", min(Scenario.warm_ns, duration_ns // 10))
    if any(role.process == MAIN for role in roles) or not processes:
        processes = {MAIN: preset} | processes
    clients = tuple(_client(table, one, cores) for one, table in top.tables("client").items())
    queues = []
    for one, table in top.tables("queue").items():
        queues.append(Queue(one, table.whole("capacity", 0, 0, _MOST_COUNT)))
        table.end()
    semaphores = []
    for one, table in top.tables("semaphore").items():
        semaphores.append(Semaphore(one, table.whole("initial", 0, 0, _MOST_COUNT)))
        table.end()
    locks = top.names("locks")
    top.end()
    if not roles:
        raise ScenarioError(
            f"{source} has no role, expected [role.NAME] with a program", hint="see `headway simulate --show convoy`"
        )
    return Scenario(
        name=name,
        title=title,
        source=source,
        cores=cores,
        placement=placement,
        duration_ns=duration_ns,
        warm_ns=warm_ns,
        busy=busy,
        processes=tuple(processes.values()),
        roles=roles,
        clients=clients,
        queues=tuple(queues),
        semaphores=tuple(semaphores),
        locks=locks,
    )


def _process(table: Table, name: str, preset: Process, folder: Path | None, *, end: bool = False) -> Process:
    """Return a process; keys that its table does not have are as in `preset`."""
    policy = table.text("policy", preset.policy)
    if "/" in policy and policy != preset.policy and folder is not None:
        policy = str((folder / policy).absolute())
    options = table.options("options")
    found = Process(
        name=name,
        gil=table.flag("gil", preset=preset.gil),
        switch_interval_ns=table.moment("switch_interval", preset.switch_interval_ns, above=True),
        policy=policy,
        options=options or (preset.options if policy == preset.policy else ()),
        slow_down=table.real("slow_down", preset.slow_down, 100.0),
    )
    if found.policy == STOCK and found.options:
        raise ScenarioError(f"{table.name('options')} has {found.options[0][0]}, but the scenario has no policy")
    if end:
        table.end()
    return found


def _role(table: Table, name: str, cores: int) -> Role:
    found = Role(
        name=name,
        program=steps(table.array("program"), f"role.{name}.program"),
        threads=table.whole("threads", 1, 0, MOST_THREADS),
        process=table.text("process", MAIN),
        processes=table.flag("processes", preset=False),
        repeats=table.flag("repeats", preset=True),
        cores=table.cores("cores", cores),
        priority=table.whole("priority", 0, -20, 19),
        urgent=table.flag("urgent", preset=False),
        begin_ns=table.moment("begin", 0),
        stagger_ns=table.moment("stagger", 0),
    )
    table.end()
    return found


def _client(table: Table, name: str, cores: int) -> Client:
    if not table.has("port"):
        raise ScenarioError(f"{table.name('port')} is missing, expected the port that a role receives from")
    found = Client(
        name=name,
        port=table.text("port"),
        connections=table.whole("connections", 1, 1, MOST_THREADS),
        thread_per_connection=table.flag("thread_per_connection", preset=False),
        think=table.times("think"),
        rate_per_s=table.real("rate_per_s", 0.0, 1e9),
        cores=table.cores("cores", cores),
        work_ns=table.moment("work", 0),
    )
    table.end()
    if found.rate_per_s and found.think is not None:
        raise ScenarioError(
            f"client.{name} has rate_per_s and think, expected one of them",
            hint="use rate_per_s for random requests (open loop), or think for the time after a reply (closed loop)",
        )
    return found
