"""Runs the C load client in a separate process, and computes the percentiles of its histograms.

The declarations repeat native/include/headway/{load,histogram}.h, of the version in `limits.ABI_VERSION`.

Protocol of the process: it reads JSON objects on its standard input, one config a line, and answers each with one line
on its standard output: {"result": {...}}, or {"error": message, "errno": number or null}. The process's first line,
{"ready": true}, says that the library is loaded and the process runs on its cores. The process ends when its standard
input ends. The kernel kills the process when the thread that started it ends.
"""

import ctypes
import json
import math
import os
import signal
import subprocess
import sys

from . import limits, proc

PROTOCOLS = {"tcp": 0, "udp": 1}
MODELS = {"closed": 0, "open": 1}
ARRIVALS = {"uniform": 0, "poisson": 1}

DEFAULTS = {
    "protocol": "tcp",
    "address": "127.0.0.1",
    "connections": 1,
    "model": "closed",
    "rate_per_s": 0.0,
    "arrivals": "poisson",
    "seed": 1,
    "warmup_s": 0.0,
    "duration_s": 1.0,
    "min_requests": 0,
    "max_duration_s": None,
    "timeout_s": 5.0,
}
"""What a config need not say. It must say `port`, `request` (characters up to U+00FF, one a byte) and `response_bytes`,
and `rate_per_s` for the open model. `max_duration_s` is by default ten times the duration, and no less than the
duration and two timeouts."""

REQUIRED = ("port", "request", "response_bytes")

POINTS = (("p50_s", 50.0), ("p90_s", 90.0), ("p99_s", 99.0), ("p999_s", 99.9))

HISTOGRAM_LENGTH = 33792
_HALF_BITS = 10
_PR_SET_PDEATHSIG = 1

BOOTSTRAP = "from headway_agent.load import main; main()"


class LoadConfig(ctypes.Structure):
    """struct hw_load_config."""

    _fields_ = [
        ("protocol", ctypes.c_int),
        ("model", ctypes.c_int),
        ("arrivals", ctypes.c_int),
        ("connections", ctypes.c_int),
        ("address", ctypes.c_char_p),
        ("port", ctypes.c_int),
        ("request", ctypes.c_char_p),
        ("request_bytes", ctypes.c_int64),
        ("response_bytes", ctypes.c_int64),
        ("rate_per_s", ctypes.c_double),
        ("seed", ctypes.c_uint64),
        ("warmup_ns", ctypes.c_int64),
        ("duration_ns", ctypes.c_int64),
        ("min_requests", ctypes.c_int64),
        ("max_duration_ns", ctypes.c_int64),
        ("timeout_ns", ctypes.c_int64),
    ]


class LoadResult(ctypes.Structure):
    """struct hw_load_result."""

    _fields_ = [
        ("requests", ctypes.c_int64),
        ("elapsed_ns", ctypes.c_int64),
        ("cpu_ns", ctypes.c_int64),
        ("lost", ctypes.c_int64),
        ("late", ctypes.c_int64),
        ("unsent", ctypes.c_int64),
        ("slip_max_ns", ctypes.c_int64),
        ("unanswered", ctypes.c_int64),
    ]


class Histogram(ctypes.Structure):
    """struct hw_histogram: empty when made."""

    _fields_ = [
        ("total", ctypes.c_int64),
        ("clamped", ctypes.c_int64),
        ("min_ns", ctypes.c_int64),
        ("max_ns", ctypes.c_int64),
        ("counts", ctypes.c_int64 * HISTOGRAM_LENGTH),
    ]

    def pairs(self):
        """Return [index, count] of every count that is not 0, by index."""
        return [[index, count] for index, count in enumerate(self.counts) if count]


def highest_ns(index):
    """Return the longest time in ns that a histogram counts at `index`."""
    bucket = max(0, (index >> _HALF_BITS) - 1)
    return ((index - (bucket << _HALF_BITS) + 1) << bucket) - 1


def percentiles(counts, points):
    """Return the value in seconds at each of `points` (0 < point <= 100) of a histogram's [index, count] pairs.

    The values agree with `hw_histogram_percentile_ns`. Pairs may come in any order and an index more than once, so
    concatenated lists merge several histograms. Without any count, each value is None.
    """
    ordered = sorted(counts)
    total = sum(count for _, count in ordered)
    found = []
    for point in points:
        wanted = max(1, int(min(point, 100.0) * total / 100 + 0.5))
        counted = 0
        value_s = None
        for index, count in ordered:
            counted += count
            if counted >= wanted:
                value_s = highest_ns(index) / 1e9
                break
        found.append(value_s)
    return found


def standard_deviation_s(counts):
    """Return the standard deviation in seconds of a histogram's [index, count] pairs; None if there is no count."""
    total = sum(count for _, count in counts)
    if not total:
        return None
    mean_ns = sum(highest_ns(index) * count for index, count in counts) / total
    squares = sum((highest_ns(index) - mean_ns) ** 2 * count for index, count in counts)
    return math.sqrt(squares / total) / 1e9


def check(config):
    """Return the config with every default filled in. Raises ValueError if a key is unknown, missing or wrong."""
    unknown = sorted(set(config) - set(DEFAULTS) - set(REQUIRED))
    if unknown:
        raise ValueError("the load config has unknown keys: %s" % ", ".join(unknown))
    missing = [key for key in REQUIRED if key not in config]
    if missing:
        raise ValueError("the load config lacks %s" % ", ".join(missing))
    full = dict(DEFAULTS)
    full.update(config)
    for key, names in (("protocol", PROTOCOLS), ("model", MODELS), ("arrivals", ARRIVALS)):
        if full[key] not in names:
            raise ValueError("the load config has %s %r, expected one of %s" % (key, full[key], ", ".join(names)))
    if full["max_duration_s"] is None:
        full["max_duration_s"] = max(10 * full["duration_s"], full["duration_s"] + 2 * full["timeout_s"])
    return full


class Load:
    """The library at `path`. Raises OSError if it cannot be loaded or has another ABI; `run` raises OSError, too."""

    def __init__(self, path):
        self._library = limits.load_library(path)
        self._library.hw_load_run.argtypes = [
            ctypes.POINTER(LoadConfig),
            ctypes.POINTER(LoadResult),
            ctypes.POINTER(Histogram),
            ctypes.POINTER(Histogram),
        ]
        histogram = ctypes.POINTER(Histogram)
        for function, arguments, result in (
            (self._library.hw_histogram_percentile_ns, [histogram, ctypes.c_double], ctypes.c_int64),
            (self._library.hw_histogram_max_ns, [histogram], ctypes.c_int64),
            (self._library.hw_histogram_mean_ns, [histogram], ctypes.c_double),
        ):
            function.argtypes = arguments
            function.restype = result

    def _latencies(self, histogram, prefix):
        library = self._library
        values_ns = [
            (name, library.hw_histogram_percentile_ns(ctypes.byref(histogram), point)) for name, point in POINTS
        ]
        values_ns.append(("max_s", library.hw_histogram_max_ns(ctypes.byref(histogram))))
        values_ns.append(("mean_s", library.hw_histogram_mean_ns(ctypes.byref(histogram))))
        return {prefix + name: value_ns / 1e9 if histogram.total else None for name, value_ns in values_ns}

    def run(self, config):
        """Run the load of `config` (see DEFAULTS) in this thread; return the same as `LoadClient.result`."""
        full = check(config)
        request = full["request"].encode("latin-1")
        given = LoadConfig(
            PROTOCOLS[full["protocol"]],
            MODELS[full["model"]],
            ARRIVALS[full["arrivals"]],
            full["connections"],
            full["address"].encode(),
            full["port"],
            request,
            len(request),
            full["response_bytes"],
            full["rate_per_s"],
            full["seed"],
            int(full["warmup_s"] * 1e9),
            int(full["duration_s"] * 1e9),
            full["min_requests"],
            int(full["max_duration_s"] * 1e9),
            int(full["timeout_s"] * 1e9),
        )
        result = LoadResult()
        intended = Histogram()
        actual = Histogram() if full["model"] == "open" else None
        code = self._library.hw_load_run(
            ctypes.byref(given),
            ctypes.byref(result),
            ctypes.byref(intended),
            ctypes.byref(actual) if actual is not None else None,
        )
        if code != 0:
            raise OSError(
                -code,
                "hw_load_run, %s over %d connections to %s:%s: %s"
                % (full["protocol"], full["connections"], full["address"], full["port"], os.strerror(-code)),
            )
        answer = {
            "requests": result.requests,
            "elapsed_s": result.elapsed_ns / 1e9,
            "requests_per_s": result.requests * 1e9 / result.elapsed_ns if result.elapsed_ns else 0.0,
            "cpu_s": result.cpu_ns / 1e9,
            "lost": result.lost,
            "late": result.late,
            "unsent": result.unsent,
            "slip_max_s": result.slip_max_ns / 1e9,
            "unanswered": result.unanswered,
            "clamped": intended.clamped,
            "counts": intended.pairs(),
        }
        answer.update(self._latencies(intended, ""))
        answer["sd_s"] = standard_deviation_s(answer["counts"])
        if actual is not None:
            answer.update(self._latencies(actual, "actual_"))
        return answer


class LoadClient:
    """A process that runs loads with the library at `library`, on the cores `cpus` (None: those of this process).

    A separate process takes no GIL and no core from the server that it measures. The process is killed when the thread
    that made it ends. The client runs one load at a time: `start`, then `result`. Raises OSError or RuntimeError if the
    process does not start.
    """

    def __init__(self, library, cpus=None):
        # This package's folder must come first, even if this process has it only by sys.path.
        paths = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
        if os.environ.get("PYTHONPATH"):
            paths.append(os.environ["PYTHONPATH"])
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join(paths)
        setup = {"library": str(library), "cpus": cpus, "parent": os.getpid()}
        # No preexec_fn: a process with threads must not run Python between fork and exec.
        self._process = subprocess.Popen(
            [sys.executable, "-s", "-c", BOOTSTRAP, json.dumps(setup)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self._running = False
        try:
            self._answer()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_exception):
        self.close()

    def _died(self):
        code = self._process.wait()
        how = "by signal %d" % -code if code < 0 else "with exit code %d" % code
        return RuntimeError("the load client (process %d) ended %s, see its stderr" % (self._process.pid, how))

    def _answer(self):
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._died()
        answer = json.loads(line.decode())
        if "error" not in answer:
            return answer
        if answer["errno"] is not None:
            raise OSError(answer["errno"], answer["error"])
        raise RuntimeError("the load client failed: %s" % answer["error"])

    def start(self, config):
        """Begin the load of `config` (see DEFAULTS); return at once. Raises ValueError if the config is wrong."""
        if self._running:
            raise RuntimeError("the load client is still at the load before: ask for its result first")
        line = json.dumps(check(config)).encode() + b"\n"
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._died() from None
        self._running = True

    def result(self):
        """Wait for the load to end and return its result.

        From struct hw_load_result: `requests`, `elapsed_s`, `requests_per_s`, the client's `cpu_s`, `lost`, `late`,
        `unsent`, `slip_max_s` and `unanswered`.

        Latencies from the time at which a request was due: `p50_s`, `p90_s`, `p99_s`, `p999_s`, `max_s`, `mean_s`, and
        `sd_s`, the standard deviation. For the open model, the same except `sd_s`, prefixed with `actual_`, from the
        time of sending. All are None if nothing was answered.

        The histogram of the former latencies: `counts`, the [index, count] pairs, and `clamped`, the number of clamped
        values.

        Raises OSError with the cause if the load failed, RuntimeError if the process died or no load was started.
        """
        if not self._running:
            raise RuntimeError("the load client was given no load to wait for")
        self._running = False
        return self._answer()["result"]

    def run(self, config):
        """Run one load: `start`, then `result`."""
        self.start(config)
        return self.result()

    def close(self):
        """Kill the process and wait for its end; a running load is lost. A second call does nothing harmful."""
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass  # Unsent data in the buffer.


def _die_with(parent):
    """Let the kernel kill us when the thread that started us ends; exit at once if its process has already ended."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(1)


def _allow_descriptors():
    """Raise the soft limit of open files to the hard limit: each connection needs a descriptor."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def main():
    """Run the process of a LoadClient: answer configs until standard input ends."""
    setup = json.loads(sys.argv[1])
    _die_with(setup["parent"])
    # Ctrl-C reaches the whole foreground group; the process that started us decides about the load.
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def answer(key, function, *arguments):
        try:
            line = {key: function(*arguments)}
        except OSError as error:
            line = {"error": error.strerror or str(error), "errno": error.errno}
        except Exception as error:
            line = {"error": "%s: %s" % (type(error).__name__, error), "errno": None}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()

    loads = []

    def get_ready():
        proc.pin(setup["cpus"])
        _allow_descriptors()
        loads.append(Load(setup["library"]))
        return True

    answer("ready", get_ready)
    for line in sys.stdin:
        answer("result", loads[0].run, json.loads(line))
