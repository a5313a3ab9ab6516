"""The files of the standard library and of packages, and a program's own modules with the same names."""

from dataclasses import replace

import pytest
from told_traces import AT_RECV, RECV, Script, told

from headway.traces.analysis.advice import pickles
from headway.traces.analysis.hotspots import own_frame
from headway.traces.analysis.stall_model import Cause, Part
from headway.traces.awaited import awaited_at
from headway.traces.calls import Call, call_at, may_await_a_process
from headway.traces.frames import Frame
from headway.traces.libraries import awaits_others, is_library, is_of_threading, is_of_threads, is_standard
from headway.traces.loops import Home, home_at, waits_for_a_lock

APP = Frame("/app/app.py", 7, "work", 1)
SITE = "/v/lib/python3.13/site-packages"


def at(filename, function="f"):
    return Frame(filename, 1, function, 1)


@pytest.mark.parametrize(
    ("filename", "library", "standard"),
    [
        ("/usr/lib/python3.13/socket.py", True, True),
        ("/usr/lib64/python3.12/socket.py", True, True),
        ("/usr/local/lib/python3.13t/socket.py", True, True),
        ("/home/me/.pyenv/versions/3.13.1t/lib/python3.13t/json/decoder.py", True, True),
        ("/home/me/.local/share/uv/python/cpython-3.14.0-linux-x86_64-gnu/lib/python3.14/socket.py", True, True),
        ("/opt/app/python311.zip/socket.py", True, True),
        ("/usr/lib/python313t.zip/socket.py", True, True),
        ("<frozen importlib._bootstrap>", True, True),
        ("/usr/lib64/python3.12/site-packages/flask/app.py", True, False),
        ("/v/lib/python3.13t/site-packages/flask/app.py", True, False),
        ("/usr/lib/python3/dist-packages/yaml/__init__.py", True, False),
        ("/v/bin/app", False, False),
        ("/srv/lib/python3.11/bin/app.py", False, False),
        ("/srv/lib/python3.x/app.py", False, False),
        ("/app/socket.py", False, False),
        ("<string>", False, False),
        ("", False, False),
    ],
)
def test_the_folder_tells_the_standard_library_and_packages(filename, library, standard):
    """Distributions and builds have folders of different names, and a program may be in a folder beside them."""
    assert (is_library(at(filename)), is_standard(at(filename))) == (library, standard)


@pytest.mark.parametrize("folder", ["/usr/lib64/python3.12", "/usr/local/lib/python3.13t", "/opt/python311.zip"])
def test_a_line_of_any_builds_standard_library_is_not_the_programs(folder):
    """The line is the one that called the library, in stalls as in reports."""
    package = at(f"{folder}/site-packages/flask/app.py")
    recv, receives = at(f"{folder}/socket.py"), at(f"{folder}/multiprocessing/connection.py")
    part = Part(Cause.BLOCKED, 1, 0, (recv, package, APP))

    assert own_frame((recv, package, APP)) == part.place == APP
    assert part.library == package
    assert Part(Cause.BLOCKED, 1, 0, (recv, APP)).library is None
    assert pickles((receives, APP))


@pytest.mark.parametrize(
    "filename",
    [
        "/usr/lib64/python3.12/threading.py",
        "/usr/lib/python3.13t/queue.py",
        "/usr/lib/python313.zip/concurrent/futures/_base.py",
        "/home/me/cpython/Lib/threading.py",
        "threading.py",
    ],
)
def test_threads_wait_for_each_other_in_three_modules(filename):
    """A program in one file, as PyInstaller makes it, has them without a folder, and CPython's own source in `Lib`."""
    assert is_of_threads(at(filename))
    assert awaits_others(at(filename))
    assert is_of_threading(at(filename)) is filename.endswith("threading.py")
    assert waits_for_a_lock((at(filename), APP))
    assert not may_await_a_process(at(filename))


@pytest.mark.parametrize(
    ("filename", "function"),
    [
        ("/app/queue.py", "Queue.get"),
        ("/app/task_queue.py", "Queue.get"),
        ("/app/jobs/threading.py", "Condition.wait"),
        (f"{SITE}/sklearn/linear_model/_base.py", "wait"),
        (f"{SITE}/pandas/io/excel/_base.py", "ExcelFile.result"),
        (f"{SITE}/scipy/sparse/_base.py", "_spbase.result"),
        ("/app/thread.py", "_worker"),
        ("/app/synchronize.py", "acquire"),
        ("/app/selectors.py", "select"),
    ],
)
def test_a_file_of_another_package_is_none_of_these(filename, function):
    """A call there that releases the GIL may do anything, as a module with any other name."""
    frame = at(filename, function)

    assert not waits_for_a_lock((frame, APP))
    assert not awaits_others(frame)
    assert may_await_a_process(frame)
    assert awaited_at((frame, APP)) is None
    assert call_at(frame) is Call.UNKNOWN


def test_multiprocessings_locks_and_those_of_its_copies_are_locks():
    """The module of the semaphores waits for a lock that other processes may have."""
    for folder in (
        "/usr/lib64/python3.12/multiprocessing",
        f"{SITE}/billiard",
        f"{SITE}/joblib/externals/loky/backend",
    ):
        frame = at(f"{folder}/synchronize.py", "SemLock.__enter__")
        assert waits_for_a_lock((frame, APP))
        assert may_await_a_process(frame)


def test_a_pools_job_in_a_module_named_queue_is_work():
    """The pool's thread calls it itself, as it calls the method that waits for the next job."""
    worker = at("/usr/lib/python3.13/multiprocessing/pool.py", "worker")

    assert home_at((at("/usr/lib/python3.13/queue.py", "SimpleQueue.get"), worker)) is Home.POOL
    assert home_at((at("/app/queue.py", "send"), worker)) is None


@pytest.mark.parametrize(
    ("filename", "is_told"),
    [
        ("/app/task_queue.py", True),
        ("/app/model_base.py", True),
        (f"{SITE}/sklearn/_base.py", True),
        ("/usr/lib64/python3.12/queue.py", False),
    ],
)
def test_a_main_threads_wait_in_a_module_of_the_program_is_told(filename, is_told):
    """Only in the standard library's modules does the main thread wait for the others to end."""
    trace = Script().hold(0, 0, 1, stack=AT_RECV).hold(1, 1, 2, stack=AT_RECV).trace(100, "MainThread", "MainThread")
    frames = tuple(
        replace(one, filename=filename, function="TaskQueue.take") if one == RECV else one for one in trace.frames
    )

    assert ("unseen-wait" in told(replace(trace, frames=frames))) is is_told
