"""The machine's checks."""

import math
import sys
from pathlib import Path

import pytest

from headway.errors import UsageError
from headway.host import doctor
from headway.host.interpreters import _folders, _ProbeCache
from headway.host.paths import cache_path


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


def test_a_home_that_cannot_be_written_or_is_not_known_is_no_reason_to_fail(monkeypatch):
    """The checks that need a folder are skipped, and interpreters are found without a cache of their answers."""

    def unknown_home():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    assert {one.name: one.status for one in doctor.examine()}["disk"] == "skipped"
    cache = _ProbeCache()
    assert cache.get(Path(sys.executable))["implementation"] == "cpython"
    cache.save()

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("HEADWAY_INTERPRETERS", raising=False)
    monkeypatch.setattr(Path, "home", unknown_home)
    with pytest.raises(UsageError, match="has no home folder"):
        cache_path()
    assert {one.name: one.status for one in doctor.examine()}["disk"] == "skipped"
    _ProbeCache().save()
    assert "private" not in {origin for origin, _ in _folders()}
