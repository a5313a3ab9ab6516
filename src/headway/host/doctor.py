"""Checks whether this machine is fit for measuring: named checks, each OK, skipped, or a warning with a remedy.

Every check reads what the kernel reports, and changes nothing. A run stores the answers with its results, so that a
figure can be read with the state of the machine that gave it.
"""

import math
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, final

from headway.errors import HeadwayError, NativeError, UsageError
from headway.host.machine import split_off_runner, this_machine
from headway.host.paths import cache_folder, default_store
from headway.host.quota import quotas
from headway.library import library_path

__all__ = ["CHECKS", "Check", "examine"]

Status = Literal["ok", "skipped", "warning"]


@final
@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        name: The name of the check.
        status: "ok", "skipped" (the machine does not tell) or "warning".
        fact: The finding, with its value.
        remedy: The action against a warning; "" otherwise.
    """

    name: str
    status: Status
    fact: str
    remedy: str = ""

    def to_json(self) -> dict[str, str]:
        """Return the attributes as JSON values."""
        return asdict(self)


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None


def _cores(name: str) -> Check:
    machine = this_machine()
    fact = f"{len(machine.cores)} usable of {os.cpu_count()} cores, {machine.physical_cores} physical"
    if len(machine.cores) < 2:
        return Check(name, "warning", fact, "use two cores or more: on one core nothing runs in parallel")
    if len(machine.cores) < (os.cpu_count() or 0):
        return Check(
            name,
            "warning",
            fact,
            "the affinity of this process is limited (taskset, container); speed-ups end at the usable cores",
        )
    return Check(name, "ok", fact)


def _runner_core(name: str) -> Check:
    own = this_machine().cores
    cores = len(own)
    if split_off_runner(own)[1]:
        return Check(name, "ok", f"{cores} cores: the runner has its own physical core")
    return Check(
        name,
        "warning",
        f"{cores} cores: the runner shares them with the measured programs",
        "the runner sleeps while a launch runs; use four cores or more to measure small effects",
    )


def _quota(name: str) -> Check:
    found = quotas()
    if not found:
        return Check(name, "skipped", "no cgroup shows a CPU quota")
    if min(found) == math.inf:
        return Check(name, "ok", "no CPU quota")
    fact = f"a quota of {min(found):.2f} cores"
    return Check(
        name,
        "warning",
        fact,
        "raise the quota: a throttled thread waits for a core, and the others wait for the GIL if it holds that",
    )


def _governor(name: str) -> Check:
    governors = {
        _read(str(path)) for path in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor")
    }
    if not governors:
        return Check(name, "skipped", "no frequency governor is visible (usual in a virtual machine)")
    names = ", ".join(sorted(filter(None, governors)))
    if governors == {"performance"}:
        return Check(name, "ok", names)
    return Check(name, "warning", names, "run `cpupower frequency-set -g performance` to keep the frequency steady")


def _steal_ticks() -> tuple[int, int] | None:
    text = _read("/proc/stat")
    if text is None:
        return None
    ticks = [int(field) for field in text.splitlines()[0].split()[1:9]]
    return (ticks[7] if len(ticks) > 7 else 0), sum(ticks)


def _steal(name: str) -> Check:
    before = _steal_ticks()
    if before is None:
        return Check(name, "skipped", "/proc/stat cannot be read")
    # The figure is since boot: the share that the host took in the long run. A fresh sample would need seconds.
    share = before[0] / before[1] if before[1] else 0.0
    fact = f"{share:.1%} of all time since boot was taken by the host"
    if share > 0.01:
        return Check(name, "warning", fact, "another guest of the host is busy: run again later, or use more launches")
    return Check(name, "ok", fact)


def _load(name: str) -> Check:
    load = os.getloadavg()[0]
    fact = f"load {load:.2f} over the last minute"
    if load > 0.5:
        return Check(name, "warning", fact, "stop other programs, or wait until they are done")
    return Check(name, "ok", fact)


def _clock(name: str) -> Check:
    smallest_ns = min(
        after - before for before, after in ((time.perf_counter_ns(), time.perf_counter_ns()) for _ in range(2_000))
    )
    source = _read("/sys/devices/system/clocksource/clocksource0/current_clocksource") or "unknown"
    fact = f"two readings are {smallest_ns} ns apart, clock source {source}"
    if smallest_ns > 1_000 or source in {"hpet", "acpi_pm", "refined-jiffies"}:
        return Check(
            name, "warning", fact, "a slow clock adds to every short figure: use the clock source tsc or kvm-clock"
        )
    return Check(name, "ok", fact)


def _tmpfs(name: str) -> Check:
    try:
        free_bytes = shutil.disk_usage("/dev/shm").free
    except OSError:
        return Check(name, "skipped", "/dev/shm does not exist")
    fact = f"{free_bytes / 2**30:.1f} GiB free in /dev/shm"
    if free_bytes < 2**30:
        return Check(name, "warning", fact, "give it 1 GiB: semaphores and in-memory files are there")
    return Check(name, "ok", fact)


def _file_system(folder: Path) -> int:
    return folder.stat().st_dev


def _disk(name: str) -> Check:
    try:
        cache, store = cache_folder(), default_store().absolute()
    except UsageError as error:
        return Check(name, "warning", error.message, error.hint)
    folders = (cache, next(folder for folder in store.parents if os.path.exists(folder)))
    for folder, remedy in zip(folders, ("XDG_CACHE_HOME to a folder", "HEADWAY_STORE to a file"), strict=True):
        if not os.access(folder, os.W_OK):
            return Check(name, "warning", f"{folder} cannot be written", f"set {remedy} that you may write to")
    # Of two folders of one file system, one is shown.
    found = {_file_system(folder): folder for folder in reversed(folders)}
    free_bytes = [shutil.disk_usage(folder).free for folder in found.values()]
    fact = ", ".join(
        f"{free / 2**30:.1f} GiB free at {folder}" for free, folder in zip(free_bytes, found.values(), strict=True)
    )
    if min(free_bytes) < 2**30:
        return Check(name, "warning", fact, "free 1 GiB for results and environments")
    return Check(name, "ok", fact)


def _kernel(name: str) -> Check:
    release = os.uname().release
    major, minor = (int("".join(filter(str.isdigit, part)) or 0) for part in release.split(".")[:2])
    if (major, minor) < (6, 6):
        return Check(name, "ok", f"Linux {release}, scheduler CFS")
    return Check(name, "ok", f"Linux {release}, scheduler EEVDF")


def _page_cache(name: str) -> Check:
    fields = dict(line.split(":", 1) for line in (_read("/proc/meminfo") or "").splitlines() if ":" in line)
    try:
        available, dirty = (int(fields[key].split()[0]) * 1024 for key in ("MemAvailable", "Dirty"))
    except KeyError:
        return Check(name, "skipped", "/proc/meminfo does not show it")
    fact = f"{available / 2**30:.1f} GiB available, {dirty / 2**20:.0f} MiB waiting to be written"
    if dirty > 256 * 2**20:
        return Check(name, "warning", fact, "run `sync` first: the kernel is still writing files")
    if available < 2**30:
        return Check(name, "warning", fact, "free memory, or paging will distort the figures")
    return Check(name, "ok", fact)


def _native(name: str) -> Check:
    try:
        return Check(name, "ok", str(library_path()))
    except NativeError as error:
        return Check(name, "warning", f"{error.message}; nothing can be traced, scheduled or simulated", error.hint)


CHECKS: dict[str, Callable[[str], Check]] = {
    "cores": _cores,
    "runner-core": _runner_core,
    "cpu-quota": _quota,
    "governor": _governor,
    "steal": _steal,
    "load": _load,
    "clock": _clock,
    "tmpfs": _tmpfs,
    "disk": _disk,
    "kernel": _kernel,
    "page-cache": _page_cache,
    "native": _native,
}
"""Checks by name, in the order in which they are shown."""


def examine() -> list[Check]:
    """Run every check; a check that cannot read the machine is "skipped", with its error."""
    checks = []
    for name, check in CHECKS.items():
        try:
            checks.append(check(name))
        except (HeadwayError, OSError, ValueError, ZeroDivisionError) as error:
            checks.append(Check(name, "skipped", f"could not be read: {error}"))
    return checks
