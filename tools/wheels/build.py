"""Build the sdist and the wheels for x86_64 and aarch64 into dist/; auditwheel checks and names the wheels.

zig's clang compiles the wheels against glibc 2.28, because a wheel that is built on a newer system does not start on an
older one. aarch64 is cross-compiled. The output of every step goes to build/dist.log; a failed step prints the end of
its output. The program runs in the environment of requirements/dist.lock.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

__all__ = ["ARCHITECTURES", "main"]

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "dist"
LOG = ROOT / "build" / "dist.log"
ARCHITECTURES = ("x86_64", "aarch64")
GLIBC = "2.28"
"""The C library of RHEL 8, Debian 10 and Ubuntu 18.10; the oldest with `statx`."""
LOG_TAIL_LINES = 25


def step(text: str, command: list[str], *, env: dict[str, str] | None = None) -> str:
    """Run a command and return its output; print the time that it took, or the end of the output if it fails."""
    begun_s = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"$ {' '.join(command)}\n{done.stdout}\n")
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-LOG_TAIL_LINES:])
        print(f"{tail}\nerror: {text} failed (exit code {done.returncode}); see {LOG}", file=sys.stderr)
        raise SystemExit(1)
    print(f"dist: {text}: {time.monotonic() - begun_s:.0f} s", file=sys.stderr)
    return done.stdout


def compiler(folder: Path, architecture: str) -> Path:
    """Write a C compiler for an architecture and the old C library into a folder; return its path."""
    path = folder / f"cc-{architecture}"
    target = f"{architecture}-linux-gnu.{GLIBC}"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ziglang cc -target {target} "$@"\n', "utf-8")
    path.chmod(0o755)
    return path


def environment(cc: Path, architecture: str) -> dict[str, str]:
    """Return the environment for the build of a wheel: one compiler, one time stamp, no flags of the caller."""
    own = ("CFLAGS", "CPPFLAGS", "LDFLAGS", "CMAKE_ARGS", "SKBUILD_", "MAKEFLAGS", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    commit_s = subprocess.run(
        [shutil.which("git") or "git", "-C", str(ROOT), "log", "-1", "--format=%ct"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    return {
        **kept,
        "CC": str(cc),
        "CMAKE_ARGS": f"-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR={architecture}",
        # The build takes the platform in the wheel's name from this variable.
        "_PYTHON_HOST_PLATFORM": f"linux-{architecture}",
        # With the commit's time as time stamp, the same commit gives the same bytes.
        "SOURCE_DATE_EPOCH": commit_s or kept.get("SOURCE_DATE_EPOCH", "315532800"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', os.defpath)}",
    }


def wheel(architecture: str, raw: Path) -> Path:
    """Build, check and name the wheel of an architecture; return its path in dist/."""
    with tempfile.TemporaryDirectory() as folder:
        env = environment(compiler(Path(folder), architecture), architecture)
        command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(raw), str(ROOT)]
        step(f"wheel for {architecture}", command, env=env)
        built = next(raw.glob(f"*_{architecture}.whl"))
        before = set(OUT.glob("*.whl"))
        repair = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(OUT), str(built)]
        step(f"auditwheel for {architecture}", repair, env=env)
    new = set(OUT.glob("*.whl")) - before
    if len(new) != 1 or "manylinux" not in next(iter(new)).name:
        raise SystemExit(f"error: auditwheel made {sorted(path.name for path in new)} of {built.name}")
    return new.pop()


def main() -> int:
    """Build everything; print the path of each package on stdout."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    LOG.parent.mkdir(exist_ok=True)
    LOG.write_text("", "utf-8")
    with tempfile.TemporaryDirectory() as raw:
        wheels = [wheel(architecture, Path(raw)) for architecture in ARCHITECTURES]
    step("sdist", [sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(OUT), str(ROOT)])
    packages = [*wheels, next(OUT.glob("*.tar.gz"))]
    step("twine check", [sys.executable, "-m", "twine", "check", "--strict", *map(str, packages)])
    for path in packages:
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
