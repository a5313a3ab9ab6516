"""Run clang-tidy over native/, with the checks of native/.clang-tidy; skip files that are known to be clean.

The key of a clean file is made of its own text, the text of all headers, the checks and clang-tidy's version. The
program prints what clang-tidy finds, and exits with 1 if it finds anything.
"""

import concurrent.futures
import hashlib
import subprocess
import sys
from pathlib import Path

from headway.host.paths import cache_folder

__all__ = ["main"]

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "native"
BUILD = ROOT / "build" / "tidy"
BIN = Path(sys.executable).parent


def configured() -> None:
    """Let CMake write the compile commands of all files into `BUILD`.

    Raises:
        subprocess.CalledProcessError: CMake fails.
    """
    command = [str(BIN / "cmake"), "-S", str(NATIVE), "-B", str(BUILD), "-G", "Ninja", "--log-level=WARNING"]
    command += [f"-DCMAKE_MAKE_PROGRAM={BIN / 'ninja'}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DSKBUILD=ON"]
    subprocess.run(
        [*command, "-DSKBUILD_SCRIPTS_DIR=bin", "-DSKBUILD_DATA_DIR=data", "-Wno-dev"],
        check=True,
        stdout=subprocess.DEVNULL,
    )


def looked_at(path: Path) -> str:
    """Return what clang-tidy finds in a file, or ""."""
    command = [str(BIN / "clang-tidy"), "--quiet", "-p", str(BUILD), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


def main() -> int:
    """Run clang-tidy on each file that is not known to be clean; return 1 if it finds anything."""
    version = subprocess.run([str(BIN / "clang-tidy"), "--version"], capture_output=True, text=True, check=True).stdout
    common = hashlib.sha256(version.encode())
    for path in sorted([NATIVE / ".clang-tidy", NATIVE / "CMakeLists.txt", *NATIVE.rglob("*.h")]):
        common.update(path.read_bytes())
    folder = cache_folder() / "tidy"
    folder.mkdir(exist_ok=True)
    marks = {}
    for path in sorted(NATIVE.rglob("*.c")):
        if path.relative_to(NATIVE).parts[0] != "tests":
            mark = folder / hashlib.sha256(common.digest() + path.read_bytes()).hexdigest()
            if not mark.exists():
                marks[path] = mark
    if not marks:
        return 0
    configured()
    found = 0
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for path, text in zip(marks, pool.map(looked_at, marks), strict=True):
            if text:
                found += 1
                print(text)
            else:
                marks[path].touch()
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
