#!python
"""Start headway by the interpreter that an installer (pip, uv) writes in the first line.

It is installed as `headway-python`. The command `headway` (native/launcher/headway.c) reads that line, and has the
interpreter run this script with -E -P. Where no compiler could build the command, this script is `headway` itself; it
cannot trace there.
"""

import importlib.util
import os
import sys
from pathlib import Path


def _places() -> list[Path]:
    """Return the folders beside this script in which an installer may have put headway."""
    prefix = Path(__file__).resolve().parents[1]
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    names = [
        f"{lib}/{version}/{packages}" for lib in ("lib", "lib64") for packages in ("site-packages", "dist-packages")
    ]
    return [place for place in (*map(prefix.joinpath, names), prefix) if (place / "headway" / "__main__.py").is_file()]


def main() -> int:
    """Run the command line and return its exit code, also if only PYTHONPATH would lead to headway, which -E ignores.

    That is so after `pip install --target` and `--prefix`, and after `--user` for another user.
    """
    places = _places()
    known = {os.path.realpath(path) for path in sys.path if path}
    if places and not any(os.path.realpath(place) in known for place in places):
        sys.path.insert(0, str(places[0]))
    if importlib.util.find_spec("headway") is None:
        python = f"{sys.executable} (CPython {sys.version.split()[0]})"
        print(
            f"error: headway was installed with {python}, which does not have it any more\n\n"
            f"hint: install it again: {sys.executable} -m pip install headway",
            file=sys.stderr,
        )
        return 1
    from headway.cli import main as run  # only now can it be imported

    return run()


if __name__ == "__main__":
    sys.exit(main())
