"""The machine's checks."""

import math
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest
from synthetic import make_interpreter, make_machine

from headway import lab, library
from headway.cli.main import main
from headway.errors import UsageError
from headway.host import doctor
from headway.host.interpreters import _folders
from headway.host.paths import cache_path
from headway.host.probes import ProbeCache
from headway.lab.experiments import experiment
from headway.lab.plan import make_plan


def test_every_named_check_answers_in_order():
    """Each check gives one answer under its name, with a fact; a warning has a remedy, and no other status has one."""
    checks = doctor.examine()

    assert [check.name for check in checks] == list(doctor.CHECKS)
    for check in checks:
        assert check.status in {"ok", "skipped", "warning"}
        assert check.fact
        assert bool(check.remedy) == (check.status == "warning")


def test_a_check_that_cannot_read_is_skipped(monkeypatch):
    """An unreadable file skips its check and stops no other."""

    def broken(_name):
        raise PermissionError(13, "no")

    monkeypatch.setitem(doctor.CHECKS, "load", broken)

    found = {check.name: check for check in doctor.examine()}

    assert found["load"].status == "skipped"
    assert found["cores"].status in {"ok", "warning"}


def test_a_quota_is_a_warning(monkeypatch):
    """The least CPU quota of this process's cgroups is a warning that gives it in cores."""
    monkeypatch.setattr(doctor, "quotas", lambda: [math.inf, 1.5, 4.0])

    check = doctor._quota("cpu-quota")

    assert (check.status, check.fact) == ("warning", "a quota of 1.50 cores")


def test_a_busy_machine_is_a_warning(monkeypatch):
    """A load of more than half a core is a warning."""
    monkeypatch.setattr(doctor.os, "getloadavg", lambda: (3.0, 1.0, 1.0))

    assert doctor._load("load").status == "warning"


def test_one_core_is_a_warning(monkeypatch):
    """One core is a warning, because nothing runs in parallel there."""
    monkeypatch.setattr(doctor.os, "sched_getaffinity", lambda _pid: {0})

    assert doctor._cores("cores").status == "warning"


@pytest.mark.parametrize(
    ("free_bytes", "other", "fact", "status"),
    [
        (2**20, True, "0.0 GiB free at {store}, 1024.0 GiB free at {cache}", "warning"),
        (2**40, True, "1024.0 GiB free at {store}, 1024.0 GiB free at {cache}", "ok"),
        (2**40 - 2**30, False, "1024.0 GiB free at {cache}", "ok"),
    ],
    ids=["full", "roomy", "one"],
)
@pytest.mark.parametrize("folder", ["later", "n" * 300], ids=["later", "never"])
def test_the_disk_of_the_results_is_looked_at(monkeypatch, tmp_path, free_bytes, other, fact, status, folder):
    """A store elsewhere needs room, too; its folder may not be there yet, or never: a store of that name is refused.

    Two folders of one file system are one, although a file may have been written between the looks at their figures.
    """
    monkeypatch.setenv("HEADWAY_STORE", str(tmp_path / folder / "results.sqlite"))
    usage = type(doctor.shutil.disk_usage("/"))
    monkeypatch.setattr(
        doctor.shutil, "disk_usage", lambda folder: usage(2**41, 0, free_bytes if folder == tmp_path else 2**40)
    )
    monkeypatch.setattr(doctor, "_file_system", lambda folder: other and folder == tmp_path)
    check = doctor._disk("disk")

    assert (check.status, check.fact) == (status, fact.format(store=tmp_path, cache=doctor.cache_folder()))


def test_the_command_to_begin_with_runs_on_one_core(monkeypatch, capsys):
    """`convoy` needs two cores: on one, all of its cells would be left out."""
    for cores, name in (({0, 1}, "convoy"), ({0}, "convoy-affinity")):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid, cores=cores: cores)
        chosen = [experiment(name)]
        assert make_plan(chosen, [make_interpreter()], make_machine(len(cores)), size="quick", seed=1).cells
        assert main([]) == 0
        door = capsys.readouterr().out
        assert f"  headway lab {name} " in door
        assert all(len(line) <= 80 for line in door.splitlines())
        monkeypatch.setattr(lab, "discover", lambda: ([make_interpreter(free_threaded=True)], []))
        assert main(["doctor"]) == 0
        assert f"next: headway lab {name} " in capsys.readouterr().out


def test_a_home_that_cannot_be_written_or_is_not_known_is_no_reason_to_fail(monkeypatch):
    """The check of the disk warns of the folder, and interpreters are found without a cache of their answers."""

    def unknown_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    check = {one.name: one for one in doctor.examine()}["disk"]
    assert (check.status, check.remedy) == ("warning", "set XDG_CACHE_HOME to a folder that you may write to")
    cache = ProbeCache()
    assert cache.get(Path(sys.executable))["implementation"] == "cpython"
    cache.save()

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HEADWAY_INTERPRETERS", raising=False)
    monkeypatch.setattr(Path, "home", unknown_home)
    with pytest.raises(UsageError, match="has no home folder"):
        cache_path()
    assert {one.name: one.status for one in doctor.examine()}["disk"] == "warning"
    ProbeCache().save()
    assert "private" not in {origin for origin, _ in _folders()}


@pytest.mark.parametrize("variable", ["XDG_CACHE_HOME", "HEADWAY_STORE"])
def test_a_folder_that_cannot_be_written_is_a_warning(monkeypatch, tmp_path, variable):
    """The folder may be there and be another user's: the next command would fail at it."""
    closed = tmp_path / "closed"
    (closed / "headway").mkdir(parents=True)
    monkeypatch.setenv(variable, str(closed / "results.sqlite" if variable == "HEADWAY_STORE" else closed))
    may = os.access
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: closed not in (path, path.parent) and may(path, mode))

    check = doctor._disk("disk")

    assert check.status == "warning"
    assert str(closed) in check.fact
    assert variable in check.remedy


def test_an_installation_without_the_native_library_is_a_warning(monkeypatch, tmp_path):
    """The remedy is the one that `headway trace` prints."""
    assert doctor._native("native").status == "ok"
    monkeypatch.delenv("HEADWAY_NATIVE", raising=False)
    monkeypatch.setattr(library, "_candidates", lambda: [tmp_path / "libheadway.so"])

    check = doctor._native("native")

    assert check.status == "warning"
    assert "was not found" in check.fact
    assert "without a C compiler" in check.remedy


def test_the_run_that_is_shown_next_may_be_of_tests(monkeypatch, capsys):
    """`headway report last` may show a benchmark of pytest: the line does not call it a run of the lab."""
    monkeypatch.setattr(lab, "discover", lambda: ([make_interpreter(free_threaded=True)], []))
    monkeypatch.setattr(lab, "default_store", lambda: Path("/"))
    monkeypatch.setattr(lab, "Store", lambda _: nullcontext(SimpleNamespace(runs=lambda: ["a run"])))

    assert main(["doctor"]) == 0
    assert "next: headway report last    (shows the last run)\n" in capsys.readouterr().out
