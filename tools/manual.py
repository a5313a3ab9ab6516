"""Write the manual page and the completions of shells into share/, from the parser of the command line.

usage: manual.py [FOLDER]

`make packages` calls the program. A wheel installs the files in the folders of a prefix that man and the shells search.
"""

import re
import sys
from pathlib import Path

from argparse_manpage.manpage import Manpage

from headway import __version__
from headway.cli import parser
from headway.cli.completion_command import script

__all__ = ["main", "write"]

ROOT = Path(__file__).resolve().parent.parent
COMPLETIONS = {
    "bash": "bash-completion/completions/headway",
    "zsh": "zsh/site-functions/_headway",
    "fish": "fish/vendor_completions.d/headway.fish",
}
DATA = {
    "project_name": "Headway",
    "version": __version__,
    "manual_title": "Headway",
    "manual_section": "1",
    "description": "measure, show, predict and schedule the GIL of Python programs",  # what whatis(1) shows
}


def write(folder: Path) -> list[Path]:
    """Write the files below `folder` and return their paths."""
    texts = {path: script(shell) for shell, path in COMPLETIONS.items()}
    texts["man/man1/headway.1"] = _with_listings(str(Manpage(parser(), _data=DATA)))
    written = []
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if text.endswith("\n") else f"{text}\n", "utf-8")
        written.append(path)
    return written


def _with_listings(page: str) -> str:
    """Return a page in which indented lines, as those of a list of exit codes, are left as they are: not filled."""
    return re.sub(r"(?m)^(?:  .*\n)+", lambda lines: f".nf\n{lines[0]}.fi\n", page)


def main(arguments: list[str]) -> int:
    """Write the files and print their paths; return 0."""
    for path in write(Path(arguments[0]) if arguments else ROOT / "share"):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
