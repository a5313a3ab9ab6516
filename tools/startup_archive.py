"""Make src/headway/agent/startup.zip of src/headway/agent/startup; through it the recorder gets into a Python process.

usage: startup_archive.py [--check]

The archive is stored, not deflated: reading it needs no zlib, which the program may not have imported. With --check the
program writes nothing, and the exit code is 1 if the archive is not the one that the source makes.
"""

import io
import sys
import zipfile
from pathlib import Path

AGENT = Path(__file__).resolve().parent.parent / "src" / "headway" / "agent"
ARCHIVE = AGENT / "startup.zip"


def made() -> bytes:
    """Return the archive; the same source always gives the same bytes."""
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_STORED) as archive:
        for source in sorted((AGENT / "startup").glob("*.py")):
            archive.writestr(zipfile.ZipInfo(source.name), source.read_bytes())
    return kept.getvalue()


def main(arguments: list[str]) -> int:
    """Write or check the archive; return the exit code."""
    if arguments == ["--check"]:
        current = ARCHIVE.is_file() and ARCHIVE.read_bytes() == made()
        if not current:
            print("src/headway/agent/startup.zip is old: run tools/startup_archive.py", file=sys.stderr)
        return int(not current)
    ARCHIVE.write_bytes(made())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
