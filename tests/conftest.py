"""Fixtures for all tests: a store and caches of their own, and synthetic runs; which of them run."""

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import numpy.fft  # noqa: F401  (pytester takes away what a test imports; parts of NumPy cannot be loaded twice)
import pytest
import scipy.special  # noqa: F401
from default_signals import restore_for_children
from hypothesis import settings
from other_plugins import OTHER_PLUGINS
from provision.find_chromium import find_chromium
from provision.prometheus import find_prometheus
from sample import sampled
from synthetic import make_interpreter, make_machine, make_settings
from told_at_once import ToldAtOnce

from headway.host import interpreters
from headway.host.paths import cache_folder, interpreters_folder, libraries_folder
from headway.lab.beside.environments import find_uv
from headway.lab.beside.surroundings import find_redis_benchmark
from headway.lab.design import Cell
from headway.lab.kept.launched import Launch
from headway.lab.kept.results import Run, read_run
from headway.lab.kept.store import Store

# Before any test module is imported: some look for interpreters at once. A cache of our own, so that a lab that the
# user runs meanwhile neither stops the tests nor is stopped by them; what takes long to make stays where it is.
os.environ["HEADWAY_INTERPRETERS"] = str(interpreters_folder())
os.environ["HEADWAY_LIBRARIES"] = str(libraries_folder())
os.environ["HEADWAY_UV"] = find_uv()
os.environ["HEADWAY_REDIS_BENCHMARK"] = find_redis_benchmark()
os.environ["HEADWAY_CHROMIUM"] = find_chromium() or ""
os.environ["HEADWAY_PROMETHEUS"] = find_prometheus() or ""
os.environ.pop("REDIS_URL", None)
pytest_plugins = ["pytester"]
# Tests check what is right, not how long it takes on a busy machine.
settings.register_profile("headway", deadline=None)
settings.register_profile("sample", deadline=None, max_examples=30)
settings.load_profile("headway")
_CACHE = tempfile.mkdtemp(prefix="headway-tests-")
_probes = cache_folder() / "probes.json"
os.environ["XDG_CACHE_HOME"] = _CACHE
# Programs that tests kill or that end by `os._exit()` leave temporary files (sockets of multiprocessing, a kernel's
# connection file): these go with the session. pytest's own folders stay where they are, for a look at what failed.
if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
    tempfile.tempdir = os.environ["TMPDIR"] = str(Path(_CACHE, "t"))
    Path(_CACHE, "t").mkdir()
# The interpreters' answers to the probe: on a machine full of tests, an interpreter that each process asks anew may be too slow.
with contextlib.suppress(OSError):
    shutil.copy(_probes, cache_folder())
restore_for_children()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ours."""
    parser.addoption(
        "--matrix",
        choices=("full", "sample"),
        default="full",
        help="a test with the mark `matrix`: with each value of its parameters, or with one, another one for each test",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples of a property in a sample than hypothesis does by default; name failures at once."""
    if config.getoption("--matrix") == "sample":
        settings.load_profile("sample")
    config.pluginmanager.register(ToldAtOnce(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what a sample of the matrices leaves out."""
    if config.getoption("--matrix") == "sample":
        kept = sampled(items)
        left_out = [item for item in items if item not in kept]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if item in kept]


def pytest_unconfigure() -> None:
    """Remove the cache of this test session."""
    shutil.rmtree(_CACHE, ignore_errors=True)


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's results out of reach: every test has a store of its own."""
    monkeypatch.setenv("HEADWAY_STORE", str(tmp_path / "results.sqlite"))
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture(autouse=True)
def _no_wait_for_a_child_of_a_test_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """End a child whose `with` block is left by an exception: it would else be waited for, for ever where it hangs.

    The exception may be the test's time limit, which comes only once.
    """
    leave = subprocess.Popen.__exit__

    def kill_and_leave(process, kind, error, trace):
        if kind is not None:
            process.kill()
        return leave(process, kind, error, trace)

    monkeypatch.setattr(subprocess.Popen, "__exit__", kill_and_leave)


@pytest.fixture
def make_run(tmp_path: Path):
    """Return a function that stores launches by cell and reads the run back.

    It takes [(cell, {metric: [values of launch 0, values of launch 1, ...]})], the interpreters and a machine.
    """

    def make(
        cells: list[tuple[Cell, dict[str, list[list[float]]]]],
        interpreters=None,
        machine=None,
        launches: int = 5,
        size: str = "quick",
    ) -> Run:
        interpreters = interpreters or [make_interpreter()]
        settings = make_settings(
            size=size,
            launches=launches,
            experiments=tuple(sorted({cell.experiment for cell, _ in cells})),
            machine=machine or make_machine(),
            interpreters=tuple(interpreters),
        )
        with Store(tmp_path / "synthetic.sqlite", create=True) as store:
            run_id = store.new_run(settings, [cell for cell, _ in cells])
            for cell, metrics in cells:
                for block in range(max(map(len, metrics.values()), default=0)):
                    samples = {name: values[block] for name, values in metrics.items()}
                    store.add_launch(run_id, cell.key, block, Launch(status="ok", samples=samples, wall_s=1.0))
            return read_run(store, run_id)

    return make


@pytest.fixture
def room():
    """Return a function that limits files to a number of bytes, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    yield lambda most=before[0]: resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


@pytest.fixture
def bare_machine(tmp_path, monkeypatch):
    """Return the only folder of PATH on a machine whose python folders are all below tmp_path."""
    for variable in ("XDG_CACHE_HOME", "XDG_DATA_HOME", "PYENV_ROOT", "HEADWAY_INTERPRETERS", "UV_PYTHON_INSTALL_DIR"):
        monkeypatch.setenv(variable, str(tmp_path / variable))
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    real = interpreters._folders
    monkeypatch.setattr(interpreters, "_folders", lambda: (item for item in real() if item[0] not in ("system", "own")))
    return folder


@pytest.fixture
def quick(pytester, monkeypatch):
    """A pytester whose runs are processes of their own, with our store in its folder."""
    monkeypatch.setenv("HEADWAY_STORE", str(pytester.path / "results.sqlite"))
    # The other plugins here take two thirds of a short session's time; `beside_plugins` has them.
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(f"-p no:{name}" for name in OTHER_PLUGINS))
    monkeypatch.setenv("COLUMNS", "200")  # no table is turned or split
    # Where we are a worker of xdist's, they are none.
    for name in [name for name in os.environ if name.startswith("PYTEST_XDIST")]:
        monkeypatch.delenv(name)
    # Else each of these many processes would compile the same modules again.
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    return pytester


@pytest.fixture
def beside_plugins(quick, monkeypatch):
    """A `quick` whose runs load every installed plugin, as a user's do."""
    monkeypatch.delenv("PYTEST_ADDOPTS")
    return quick
