"""Facts about this machine that every result is read with: cores, kernel, memory. Linux, from /proc and /sys."""

import os
import platform
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

__all__ = ["Machine", "split_off_runner", "this_machine"]


@final
@dataclass(frozen=True)
class Machine:
    """The machine of a run.

    Attributes:
        cpu: The model name.
        cores: Core numbers that launches may use.
        physical_cores: The number of different physical cores among those; hyper-threads of one core count once.
        split: Two core numbers for the placement `split`, on different physical cores if there are two; empty with one
            core.
        memory_bytes: Installed memory.
        kernel: `uname -r`.
        system: The distribution's own name.
    """

    cpu: str
    cores: tuple[int, ...]
    physical_cores: int
    split: tuple[int, ...]
    memory_bytes: int
    kernel: str
    system: str

    def away_from(self, core: int) -> tuple[int, ...]:
        """Return the cores that share no physical core with `core`, or all other cores if each of them shares one."""
        apart = tuple(other for other in self.cores if _siblings(other) != _siblings(core))
        return apart or tuple(other for other in self.cores if other != core)

    def to_json(self) -> dict[str, Any]:
        """Return every attribute as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Machine":
        """Return the machine that `to_json` wrote."""
        return cls(**{**values, "cores": tuple(values["cores"]), "split": tuple(values["split"])})


def _siblings(core: int) -> str:
    """Return a key shared by the hyper-threads of one physical core."""
    topology = Path(f"/sys/devices/system/cpu/cpu{core}/topology")
    try:
        return (topology / "physical_package_id").read_text().strip() + ":" + (topology / "core_id").read_text().strip()
    except OSError:
        return f"core {core}"


def _cpu_model() -> str:
    try:
        match = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        match = None
    return match.group(1) if match else platform.machine()


_CORES_TO_SPARE = 4


def split_off_runner(cores: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return (cores for launches, cores for the runner): with four physical cores or more, the last is the runner's.

    All hyper-threads of that physical core go to the runner. With fewer cores the second part is empty.
    """
    by_physical: dict[str, list[int]] = {}
    for core in cores:
        by_physical.setdefault(_siblings(core), []).append(core)
    if len(by_physical) < _CORES_TO_SPARE:
        return cores, ()
    spare = max(by_physical.values(), key=max)
    return tuple(core for core in cores if core not in spare), tuple(spare)


def this_machine(cores: tuple[int, ...] | None = None) -> Machine:
    """Return the facts of this machine. The function cannot fail on Linux.

    Args:
        cores: The cores that launches may use; None means all that this process may use (its affinity).
    """
    cores = tuple(sorted(os.sched_getaffinity(0))) if cores is None else cores
    by_physical: dict[str, int] = {}
    for core in cores:
        by_physical.setdefault(_siblings(core), core)
    apart = tuple(by_physical.values())
    split = apart[:2] if len(apart) > 1 else cores[:2] if len(cores) > 1 else ()
    try:
        system = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())
    except OSError:
        system = platform.system()
    return Machine(
        cpu=_cpu_model(),
        cores=cores,
        physical_cores=len(by_physical),
        split=split,
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        kernel=platform.release(),
        system=system,
    )
