"""Whether a process has a seccomp filter of its own, by the kernel's data of it, its container and ourselves."""

import re

import pytest

from headway.errors import RecordingError
from headway.live import filters

OURS, THEIRS = "pid:[4026531836]", "pid:[4026532187]"


@pytest.fixture
def proc(tmp_path):
    """Return a folder that stands for /proc, in which we ourselves have no filter."""
    made(tmp_path, "self", 0, space=OURS)
    return tmp_path


def said(count, mode=None, numbers="77", *, counted=True):
    mode = (2 if count else 0) if mode is None else mode
    return f"Name:\tpython\nNSpid:\t{numbers}\nSeccomp:\t{mode}\n" + f"Seccomp_filters:\t{count}\n" * counted


def made(proc, pid, count, mode=None, numbers=None, *, space=None, counted=True):
    """Write the /proc entries of a process with one thread."""
    folder = proc / str(pid)
    text = said(count, mode, str(pid) if numbers is None else numbers, counted=counted)
    for place in (folder, folder / "task" / str(pid)):
        place.mkdir(parents=True)
        (place / "status").write_text(text)
    if space is not None:
        (folder / "ns").mkdir()
        (folder / "ns" / "pid").symlink_to(space)


@pytest.mark.parametrize("counted", [True, False])
def test_no_filter(proc, counted):
    """A process without a filter has none of its own, whatever else can be seen."""
    made(proc, 77, 0, counted=counted)

    assert filters.own_filter(77, proc) == ""


def test_a_kernel_without_seccomp(proc):
    """A kernel that reports nothing of filters has none."""
    (proc / "77").mkdir()
    (proc / "77" / "status").write_text("Name:\tpython\nNSpid:\t77\n")

    assert filters.own_filter(77, proc) == ""


@pytest.mark.parametrize(("first", "count", "own"), [(0, 1, True), (1, 1, False), (1, 2, True), (2, 1, False)])
def test_beside_the_first_process_of_this_namespace(proc, first, count, own):
    """Only filters beyond those of the first process count, and that process's links need not be readable."""
    made(proc, 1, first)
    made(proc, 77, count)

    found = filters.own_filter(77, proc)

    assert found == (f"a seccomp filter of its own ({count} in total, {first} of them its container's)" if own else "")


@pytest.mark.parametrize(("first", "count", "own"), [(1, 1, False), (1, 2, True)])
def test_beside_the_first_process_of_its_own_namespace(proc, first, count, own):
    """A container's first process is found from outside by the link of its own namespace."""
    made(proc, 1, 0, space=OURS)
    made(proc, 60, 3, numbers="60 1", space="pid:[4026532999]")
    made(proc, 70, first, numbers="70 1", space=THEIRS)
    made(proc, 77, count, numbers="77 8", space=THEIRS)
    (proc / "80").mkdir()  # a process that has just ended
    (proc / "version").write_text("Linux")

    assert bool(filters.own_filter(77, proc)) is own


@pytest.mark.parametrize(("ours", "count", "own"), [(0, 1, True), (1, 1, False), (1, 2, True)])
@pytest.mark.parametrize("why", ["hidden", "no link", "the first itself"])
def test_beside_us(tmp_path, why, ours, count, own):
    """Our own filters count as the container's if the first process is hidden, or is the very process."""
    made(tmp_path, "self", ours)
    numbers, space = {"hidden": ("77", None), "no link": ("77 8", None), "the first itself": ("77 1", THEIRS)}[why]
    made(tmp_path, 77, count, numbers=numbers, space=space)

    assert bool(filters.own_filter(77, tmp_path)) is own


@pytest.mark.parametrize(("first", "own"), [(0, True), (1, False)])
def test_before_linux_5_9(proc, first, own):
    """A filter is the process's own if filters are not counted and the first process has none."""
    made(proc, 1, first, counted=False)
    made(proc, 77, 1, counted=False)

    assert filters.own_filter(77, proc) == ("a seccomp filter of its own" if own else "")


def test_strict_mode(proc):
    """Strict mode is the process's own, whatever its container has."""
    made(proc, 1, 0, mode=1)
    made(proc, 77, 0, mode=1)

    assert filters.own_filter(77, proc) == "seccomp's strict mode on"


@pytest.mark.parametrize(("mode", "own"), [(1, "strict mode"), (2, "a seccomp filter of its own (1 in total, 0 of")])
def test_a_thread_of_it(proc, mode, own):
    """A thread may have a filter that the main thread does not have; a thread that ends meanwhile is skipped."""
    made(proc, 1, 0)
    made(proc, 77, 0)
    thread = proc / "77" / "task" / "78"
    thread.mkdir()
    (thread / "status").write_text(said(1, mode))
    (proc / "77" / "task" / "79").mkdir()

    assert own in filters.own_filter(77, proc)


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (FileNotFoundError(2, "No such file"), "process 77 has ended"),
        (ProcessLookupError(3, "No such process"), "process 77 has ended"),
        (PermissionError(13, "Permission denied"), "the seccomp filters of process 77 cannot be read"),
    ],
)
def test_what_cannot_be_read_is_said(monkeypatch, error, message):
    """A process that has ended, or may not be read, is refused with a message that says so."""

    def refuse(pid, proc=None):
        raise error

    monkeypatch.setattr(filters, "status", refuse)

    with pytest.raises(RecordingError, match=re.escape(message)):
        filters.check(77, "try")


def test_the_refusal_has_the_hint(monkeypatch):
    """A refusal has a hint that tells what to do."""
    monkeypatch.setattr(filters, "own_filter", lambda pid: "a filter")

    with pytest.raises(RecordingError, match="process 77 has a filter, which may end it") as caught:
        filters.check(77, "try this")
    assert caught.value.hint == "try this"
