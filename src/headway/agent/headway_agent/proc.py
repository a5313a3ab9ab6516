"""Reads the kernel's counts: busy time of each core, and context switches of this process and its descendants.

Linux only (/proc). Uses no extension module beyond the standard library's, so that nothing here switches a
free-threaded interpreter's GIL back on.
"""

import os
import sys
import time


def read(path):
    """Return the present content of a file in /proc. Raises OSError.

    Avoids Python's buffered files: beside a CPU-bound thread on its core, CPython 3.13t takes 0.15 s to open one.
    """
    fd = os.open(path, os.O_RDONLY)
    try:
        pieces = []
        while True:
            pieces.append(os.read(fd, 65536))
            if not pieces[-1]:
                return b"".join(pieces).decode("ascii", "replace")
    finally:
        os.close(fd)


def switches():
    """Return how often this thread has gone to sleep, and how often it lost its core while it computed.

    Source: /proc/thread-self/status, see proc(5). (0, 0) if it cannot be read. `resource` has the same, but a program
    may have a module of its own with that name.
    """
    try:
        text = read("/proc/thread-self/status")
    except OSError:
        return 0, 0
    found = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return int(found.get("voluntary_ctxt_switches", 0)), int(found.get("nonvoluntary_ctxt_switches", 0))


def gil_enabled():
    """Return whether the GIL is on now; always True on builds that always have it."""
    return getattr(sys, "_is_gil_enabled", lambda: True)()


def core_times(stat, allowed):
    """Return {core number: (busy, total)} since boot, in clock ticks (1/`os.sysconf("SC_CLK_TCK")` s).

    Only the cores in `allowed` count: on a larger host, the other cores are busy with other work.

    Source: the text `stat` of /proc/stat, see proc_stat(5). Idle and iowait count as not busy; steal counts as busy by
    others and is left out of `busy`.
    """
    cores = {}
    for line in stat.splitlines():
        if line.startswith("cpu") and line[3].isdigit():
            name, *fields = line.split()
            if int(name[3:]) not in allowed:
                continue
            ticks = [int(field) for field in fields[:8]]
            user, nice, system, idle, iowait, irq, softirq, steal = ticks + [0] * (8 - len(ticks))
            busy = user + nice + system + irq + softirq
            cores[int(name[3:])] = (busy, busy + idle + iowait + steal)
    return cores


def utilisation(before, after):
    """Return {core number: busy share 0..1} between two `core_times()`; a core without a tick between is left out."""
    shares = {}
    for core, (busy, total) in after.items():
        if core in before and total > before[core][1]:
            shares[core] = (busy - before[core][0]) / (total - before[core][1])
    return shares


class Course:
    """The activity of the cores in `allowed` in each stretch of a launch, from one mark to the next.

    Without the core times if /proc/stat cannot be read.
    """

    def __init__(self, allowed):
        self._allowed = allowed
        self._marks = []
        self.mark("")

    def mark(self, phase):
        """End a stretch called `phase`. The call happens between samples, so it reads /proc/stat and does no more."""
        try:
            stat = read("/proc/stat")
        except OSError:
            stat = ""
        self._marks.append((phase, time.monotonic_ns(), stat))

    def resume(self):
        """Begin the next stretch now; the time since the last mark does not count."""
        self.mark(None)

    def utilisation(self, phase):
        """Return {core number: busy share 0..1} over all stretches called `phase`."""
        sums = {}
        for (_, _, begun), (name, _, ended) in zip(self._marks, self._marks[1:]):
            if name == phase:
                before, after = core_times(begun, self._allowed), core_times(ended, self._allowed)
                for core in after.keys() & before.keys():
                    spent = [now - then for now, then in zip(after[core], before[core])]
                    sums[core] = tuple(map(sum, zip(sums.get(core, (0, 0)), spent)))
        return utilisation({core: (0, 0) for core in sums}, sums)

    def stretches(self):
        """Return the stretches by time: {"phase", "until_s", "busy_s"}.

        `until_s` counts the time of our own stretches from the first mark on. `busy_s` is the sum over all cores; the
        kernel counts in ticks of 10 ms. Empty without /proc/stat.
        """
        hertz = os.sysconf("SC_CLK_TCK")
        _, last_ns, stat = self._marks[0]
        before = core_times(stat, self._allowed)
        until_ns, found = 0, []
        for phase, ended_ns, stat in self._marks[1:] if before else ():
            after = core_times(stat, self._allowed)
            if phase is not None:
                until_ns += ended_ns - last_ns
                ticks = sum(busy - before[core][0] for core, (busy, _) in after.items() if core in before)
                found.append({"phase": phase, "until_s": until_ns / 1e9, "busy_s": ticks / hertz})
            before, last_ns = after, ended_ns
        return found


def children(pid):
    """Return the live children of every thread of `pid`."""
    found = []
    try:
        for thread in os.listdir("/proc/%d/task" % pid):
            found.extend(int(child) for child in read("/proc/%d/task/%s/children" % (pid, thread)).split())
    except OSError:
        pass  # The process has ended meanwhile, or the kernel lacks CONFIG_PROC_CHILDREN.
    return found


def descendants(pid):
    """Yield the live descendants of `pid`; the children of each are read after it is yielded."""
    pending = children(pid)
    while pending:
        child = pending.pop()
        yield child
        pending.extend(children(child))


def _switches_of(pid):
    """Return [voluntary, involuntary] over the live threads of process `pid`."""
    counts = [0, 0]
    try:
        for thread in os.listdir("/proc/%d/task" % pid):
            for line in read("/proc/%d/task/%s/status" % (pid, thread)).splitlines():
                if line.startswith("voluntary_ctxt_switches"):
                    counts[0] += int(line.split()[1])
                elif line.startswith("nonvoluntary_ctxt_switches"):
                    counts[1] += int(line.split()[1])
    except OSError:
        pass  # The process has ended meanwhile: its counts are in RUSAGE_CHILDREN once it is reaped.
    return counts


_resource = None


def _used(whose):
    """Return what getrusage(2) says of "SELF" or "CHILDREN".

    A program may have a module of its own named `resource`, which an import would find; it is looked for in the folder of
    the interpreter's own extensions, and the program finds what it would find without us.
    """
    global _resource
    if _resource is None:
        from importlib.machinery import PathFinder
        from importlib.util import module_from_spec

        loaded = sys.modules.get("resource")
        folders = [one for one in sys.path if os.path.basename(one) == "lib-dynload"]
        spec = PathFinder.find_spec("resource", folders)
        if hasattr(loaded, "getrusage"):
            _resource = loaded
        elif spec is not None:
            _resource = module_from_spec(spec)
            spec.loader.exec_module(_resource)
        else:
            import resource  # it is built in

            _resource = resource
    return _resource.getrusage(getattr(_resource, "RUSAGE_%s" % whose))


def context_switches():
    """Return (voluntary, involuntary) switches so far: this process with its ended threads, and its descendants.

    The counts of this process and of reaped children come from getrusage(2), which includes threads that have ended.
    The counts of live descendants come from /proc/PID/task/TID/status.
    """
    own, reaped = _used("SELF"), _used("CHILDREN")
    counts = [own.ru_nvcsw + reaped.ru_nvcsw, own.ru_nivcsw + reaped.ru_nivcsw]
    for child in descendants(os.getpid()):
        for i, count in enumerate(_switches_of(child)):
            counts[i] += count
    return tuple(counts)


def _busy_ticks(pid):
    """Return the CPU time of process `pid` and its reaped children in clock ticks; 0 if it has ended meanwhile."""
    try:
        fields = read("/proc/%d/stat" % pid).rpartition(")")[2].split()
        return sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime: see proc_pid_stat(5)
    except (OSError, IndexError, ValueError):
        return 0


def own_busy_s():
    """Return the CPU time so far of this process with its ended threads, and of its descendants, in seconds."""
    used = [_used("SELF"), _used("CHILDREN")]
    ticks = sum(_busy_ticks(child) for child in descendants(os.getpid()))
    return sum(one.ru_utime + one.ru_stime for one in used) + ticks / os.sysconf("SC_CLK_TCK")


def queued_ns():
    """Return for how long the calling thread has waited for a core so far; 0 if the system does not tell."""
    try:
        return int(read("/proc/thread-self/schedstat").split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def max_rss_bytes():
    """Return the largest resident set so far of this process (VmHWM of /proc/self/status), in bytes; 0: not known.

    ru_maxrss of getrusage(2) is that of the process that started this one, if that was larger: exec(2) keeps it.
    """
    return resident("self")[1]


def resident(pid):
    """Return a process's resident set, and the largest one so far, in bytes; 0 for what is not known. Raises OSError."""
    found = {"VmRSS": 0, "VmHWM": 0}
    for line in read("/proc/%s/status" % pid).splitlines():
        name, _, value = line.partition(":")
        if name in found:
            found[name] = int(value.split()[0]) * 1024
    return found["VmRSS"], found["VmHWM"]


def forget_peak():
    """Let this process's largest resident set count from now on, where the system allows it."""
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:
        pass


def peak_pss_bytes(pid):
    """Return a process's proportional set size at its largest resident set, in bytes; None if it is not known.

    Memory that the process has given back since then is taken as its own: calls do not share what they fill.
    """
    now_bytes = pss_bytes(pid)
    if now_bytes is None:
        return None
    try:
        resident_bytes, most_bytes = resident(pid)
    except OSError:
        return now_bytes
    return now_bytes + max(0, most_bytes - resident_bytes)


def pin(cpus):
    """Pin the calling thread, and all that it starts later, to `cpus` (a list of core numbers); None pins nothing."""
    if cpus:
        os.sched_setaffinity(0, cpus)


def pss_bytes(pid):
    """Return a process's proportional set size in bytes (/proc/PID/smaps_rollup, Linux 4.14); None if unknown."""
    try:
        for line in read("/proc/%d/smaps_rollup" % pid).splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
