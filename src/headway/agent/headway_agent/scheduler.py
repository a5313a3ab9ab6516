"""Has a policy schedule the GIL of this process.

`headway run`, `headway.schedule()` and the lab come here; what schedules is native/engine. Anything that is not as
expected raises `UnfitError`, and the program goes on under CPython's own behaviour.
"""

import os
import struct
import sys

from .library import LEASE_SCHEDULE, UnfitError, errno_name, gil_enabled, leased, load, say

__all__ = ["COUNTS", "Scheduler", "attach", "detach", "options_text", "start_from_environment"]

COUNTS = (
    "acquires",
    "asked",
    "granted",
    "barged",
    "graced",
    "idle_ns",
    "wait_ns",
    "worst_wait_ns",
    "threads",
    "without",
    "rests",
    "early",
    "early_wait_ns",
)
"""The fields of struct hw_schedule_counts (native/include/headway/schedule.h)."""

_PROBLEMS = {
    "EALREADY": "a policy is on already",
    "ENOENT": "the interpreter's _PyRuntime is not to be found",
    "ENXIO": "the interpreter is linked statically: its calls of pthread_cond_* cannot be hooked",
    "EPROTO": "the GIL is not where this CPython should have it",
    "ETIMEDOUT": "this thread does not hold the main interpreter's GIL: start from the main interpreter",
}


def options_text(options):
    """Return options as the library reads them: {"slice_us": 500} is "slice_us=500"."""
    return " ".join("%s=%s" % pair for pair in options.items())


class Scheduler:
    """The scheduler of this process; there is one policy at a time, however many objects."""

    def __init__(self, library):
        """Load the shared library. Raises UnfitError."""
        self._library = load(library)

    def start(self, policy, options=""):
        """Put a policy on: a name, or the path of a library. Raises UnfitError."""
        if not gil_enabled():
            raise UnfitError("this interpreter has no GIL to schedule")
        try:
            error, problem = self._library.schedule(os.fsencode(policy), os.fsencode(options))
        except ValueError as unfit:  # a NUL
            raise UnfitError("%r: %s" % (policy, unfit))
        if error:
            name = errno_name(-error)
            text = os.fsdecode(problem) or _PROBLEMS.get(name) or os.strerror(-error)
            raise UnfitError(text)

    def stop(self):
        """Put CPython's own behaviour back; returns whether a policy was on."""
        return self._library.unschedule() == 0

    @property
    def active(self):
        """The name of the policy that is on, "" for none: also when the watchdog has removed it."""
        return os.fsdecode(self._library.scheduled())

    def hint(self, priority, urgent):
        """Say of the calling thread how it is to fare. Raises UnfitError, and ValueError for a priority that is none."""
        error = self._library.hint(priority, int(urgent))
        if error:
            name = errno_name(-error)
            if name == "EINVAL":
                raise ValueError("priority is %r, expected -20 to 19" % (priority,))
            raise UnfitError(os.strerror(-error))

    def counts(self):
        """Return what happened at the main GIL under the policy, as a dict; {} when there was none."""
        packed = self._library.counts()
        return dict(zip(COUNTS, struct.unpack("%dq" % len(COUNTS), packed))) if packed else {}

    def gainer(self):
        """Return the id of the living thread for which holders were asked sooner most often, 0 for none, and how often."""
        return self._library.gainer()


def _named(thread):
    """Return what a living thread is called, by its id in the system."""
    import threading

    for one in threading.enumerate():
        if getattr(one, "native_id", None) == thread:
            return one.name
    return "thread %d" % thread


def told(policy, counts, interval_s, gainer="", most=0):
    """Return what a policy did, in a sentence. `gainer`: the living thread that gained most, so many times."""
    early = counts.get("early", 0)
    if not early:
        return "%s had nothing to do: no thread had to wait for one that computes" % policy
    mostly = ", most for %s (%s)" % (gainer, format(most, ",")) if most else ""
    wait_ms = counts["early_wait_ns"] / early / 1e6
    return (
        "%s had the GIL let go sooner %s times%s: these waits took %.3g ms on average, without it %.3g ms and more; "
        "nobody waited for longer than %.3g ms"
        % (policy, format(early, ","), mostly, wait_ms, interval_s * 1e3, counts["worst_wait_ns"] / 1e6)
    )


def _tell(scheduler, policy):
    thread, most = scheduler.gainer()
    counts = scheduler.counts()
    if counts:
        name = _named(thread) if thread else ""
        say("process %d: %s" % (os.getpid(), told(policy, counts, sys.getswitchinterval(), name, most)))


def start_from_environment():
    """Schedule this process as the environment says; where that cannot be, say why in one line on stderr.

    Environment: HEADWAY_POLICY and HEADWAY_POLICY_OPTIONS ("slice_us=500 ..."), HEADWAY_SWITCH_INTERVAL in seconds;
    HEADWAY_NATIVE, the shared library; HEADWAY_WHY, the process tells at its end what the policy did.
    """
    try:
        interval = os.environ.get("HEADWAY_SWITCH_INTERVAL")
        if interval:
            sys.setswitchinterval(float(interval))
        policy = os.environ.get("HEADWAY_POLICY")
        if policy:
            scheduler = Scheduler(os.environ["HEADWAY_NATIVE"])
            scheduler.start(policy, os.environ.get("HEADWAY_POLICY_OPTIONS", ""))
            if os.environ.get("HEADWAY_WHY"):
                import atexit

                atexit.register(_tell, scheduler, policy)
    except (UnfitError, KeyError, ValueError, OSError) as error:
        say("process %d is not scheduled: %s" % (os.getpid(), error))


def attach(library, policy, options):
    """Put a policy on in this process, as long as somebody keeps up a lease.

    Returns the name of the policy that was on before, and the lease's descriptor. Raises UnfitError.
    """
    scheduler = Scheduler(library)
    before = scheduler.active
    scheduler.stop()  # also what somebody has left behind
    lease = leased(scheduler._library, LEASE_SCHEDULE, lambda: scheduler.start(policy, options))
    return before, (lease,)


def detach(library):
    """Take the policy off, whoever put it on; returns what that was, "" for none."""
    scheduler = Scheduler(library)
    before = scheduler.active
    scheduler.stop()
    return "the policy %s" % before if before else ""
