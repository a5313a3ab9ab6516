"""Facts about this machine that every result is read against: cores, kernel, memory. Linux, from /proc and /sys."""

import os
import platform
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, final

__all__ = ["Machine", "this_machine"]


@final
@dataclass(frozen=True)
class Machine:
    """What a run was measured on.

    Attributes:
        cpu: Model name.
        cores: Core numbers that this process may use (its affinity).
        physical_cores: How many different physical cores those are; hyper-threads of one core count once.
        split: Two core numbers for the placement `split`, on different physical cores where there are two; empty
            with one core.
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

    def to_json(self) -> dict[str, Any]:
        """Return every attribute as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Machine":
        """Return what `to_json` gave."""
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


def this_machine() -> Machine:
    """Return the facts of the machine we run on. This function can't fail on Linux."""
    cores = tuple(sorted(os.sched_getaffinity(0)))
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
