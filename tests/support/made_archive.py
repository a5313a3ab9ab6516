"""An archive of Debian packages made for a test, and a machine of the release `moon` whose apt configuration names it."""

import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

needs_apt = pytest.mark.skipif(not shutil.which("apt-get") or not shutil.which("dpkg-deb"), reason="no apt here")
# Goes into a program's text: the program runs only if the library is in a folder of LD_LIBRARY_PATH, like a real one.
NEEDS_LIBRARY = (
    '[ -e "${LD_LIBRARY_PATH:-/nowhere}/libfake.so.1" ] || { echo "error while loading: libfake.so.1" >&2; exit 127; }'
)
LDD = """\
#!/bin/sh
[ -e "$LD_LIBRARY_PATH/libfake.so.1" ] || echo "	libfake.so.1 => not found"
"""


@dataclass(frozen=True)
class Package:
    """A package whose files are in <archive>/roots/<name>; `depends` has whole lines of its control file."""

    name: str
    depends: str = ""


def write_executable(path: Path, text: str) -> None:
    """Write a script, and the folders above it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def set_up_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hidden: Sequence[str]) -> None:
    """Make this a machine of the release `moon` without the programs `hidden`; apt's configuration is in tmp_path."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("HEADWAY_PROVISION", raising=False)
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"VERSION_CODENAME": "moon"})
    # This machine may have the programs; the rest of PATH is needed.
    real = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, *rest: None if name in hidden else real(name, *rest))
    write_executable(tmp_path / "bin/ldd", LDD)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    (tmp_path / "apt").mkdir()


def add_library(archive: Path, soname: str) -> Package:
    """Write the files of the package libfake1, in which the soname is a link."""
    write_executable(archive / f"roots/libfake1/usr/lib/moon/{soname}.5", "")
    (archive / f"roots/libfake1/usr/lib/moon/{soname}").symlink_to(f"{soname}.5")
    return Package("libfake1")


def write_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packages: Sequence[Package]) -> None:
    """Build the packages in tmp_path/archive with their index, and name it in the apt configuration."""
    folder = tmp_path / "archive"
    index = "\n".join(_build(folder, package) for package in packages)
    architecture = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True)
    name = f"main/binary-{architecture.stdout.strip()}/Packages"
    (folder / "dists/moon" / name).parent.mkdir(parents=True)
    (folder / "dists/moon" / name).write_text(index)
    digest = f"{hashlib.sha256(index.encode()).hexdigest()} {len(index)} {name}"
    (folder / "dists/moon/Release").write_text(
        f"Codename: moon\nDate: Thu, 01 Jan 2026 00:00:00 UTC\nComponents: main\nSHA256:\n {digest}\n"
    )
    (tmp_path / "apt/sources.list").write_text(f"deb file:{folder} moon main\n")
    # The archive is not signed.
    insecure = 'Acquire::AllowInsecureRepositories "true"; APT::Get::AllowUnauthenticated "true";'
    (tmp_path / "insecure.conf").write_text(insecure)
    monkeypatch.setenv("APT_CONFIG", str(tmp_path / "insecure.conf"))


def _build(archive: Path, package: Package) -> str:
    """Build a package, and return its paragraph of the index."""
    name = package.name
    control = (
        f"Package: {name}\nVersion: 1:7.0-1\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n{package.depends}"
    )
    root, deb = archive / "roots" / name, archive / f"{name}.deb"
    write_executable(root / "DEBIAN/control", control)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", root, deb], check=True, capture_output=True)
    digest = hashlib.sha256(deb.read_bytes()).hexdigest()
    return f"{control}Filename: {deb.name}\nSize: {deb.stat().st_size}\nSHA256: {digest}\n"


def in_cache(tmp_path: Path) -> list[str]:
    """Return the names of the cache's entries."""
    return sorted(path.name for path in (tmp_path / "cache/headway").iterdir())
