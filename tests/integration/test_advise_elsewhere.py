"""`headway advise` on other interpreters than the user's own: where the function's package is, and what an installation says."""

from dataclasses import replace

import pytest
from advised_app import CORES, interpreter, made
from real_programs import LIMIT_S

from headway.advice.elsewhere import places
from headway.advice.examined import examine
from headway.advice.target import parse_target
from headway.host.keeper import Keeper

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

REASON = """  x No solution found when resolving dependencies:
  ╰─▶ Because some-library was not found in the package registry, your requirements are unsatisfiable.
"""


def elsewhere(target, home, *, install=False):
    """Return what `places` finds on 3.12."""
    with Keeper() as keeper:
        return places(
            parse_target(target),
            home,
            CORES,
            lost=0,
            interpreters=[interpreter("3.12")],
            install=install,
            keeper=keeper,
            say=lambda _: None,
        )


def test_a_package_that_is_installed_to_be_edited_is_found_elsewhere(tmp_path, monkeypatch):
    """The user's interpreter has a path to its folder, and another one has not."""
    source = made(tmp_path, monkeypatch) / "src"
    (source / "shop").mkdir(parents=True)
    (source / "shop" / "__init__.py").write_text("")
    (source / "shop" / "till.py").write_text("def f(): return 1\n")
    target = parse_target("shop.till:f")
    home = examine(target, interpreter("3.13"), CORES, limit_s=LIMIT_S, paths=[str(source)]).place
    assert home.folder == str(source)

    (found,), refusals, _ = elsewhere("shop.till:f", replace(home, paths=()))
    assert (found.paths, refusals) == ((str(source),), [])


def test_an_installation_that_fails_has_its_whole_reason(tmp_path, monkeypatch):
    """The first line says only that there is no solution; the next ones name the library."""
    made(tmp_path, monkeypatch)
    (tmp_path / "reason.txt").write_text(REASON)
    uv = tmp_path / "uv"
    uv.write_text(f"#!/bin/sh\ncat {tmp_path}/reason.txt >&2\nexit 1\n")
    uv.chmod(0o755)
    monkeypatch.setenv("HEADWAY_UV", str(uv))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = examine(parse_target("app:count"), interpreter("3.13"), CORES, limit_s=LIMIT_S).place
    found, (refusal,), _ = elsewhere("app:count", replace(home, distributions={"some-library": "1.0"}), install=True)

    assert not found
    assert "Because some-library was not found in the package registry" in refusal.reason
