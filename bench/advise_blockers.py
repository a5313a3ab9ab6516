"""Check that `headway advise` names the module that is in the way.

Thirteen modules refuse sub-interpreters, and ten switch the GIL of a free-threaded build on. The module of a function
imports each, as a user would. `headway advise` asks its cheap questions, and the module that it names is compared with
what is known of the import. The modules that are named wrongly or not at all are printed first.

    .venv/bin/python bench/advise_blockers.py
"""

import argparse
import sys
import tempfile
from pathlib import Path

from headway.advice.examined import examine
from headway.advice.target import parse_target
from headway.host.interpreters import discover, probe, select
from headway.host.machine import this_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from provision.locked_environment import locked_python

ROOT = Path(__file__).resolve().parent.parent

REFUSE = {
    "numpy": "numpy.",
    "pandas": "numpy.",
    "lxml.etree": "lxml.",
    "cryptography.fernet": "cryptography.",
    "orjson": "orjson",
    "regex": "regex",
    "bcrypt": "bcrypt",
    "psutil": "psutil",
    "pydantic_core": "pydantic_core",
    "yaml.cyaml": "yaml.",
    "PIL._imaging": "PIL.",
    "ujson": "ujson",
    "msgpack._cmsgpack": "msgpack.",
}
"""Module that is imported -> what the name of the extension that refuses begins with, where it refuses at all."""

SWITCH = {
    "bitarray": "bitarray.",
    "hiredis": "hiredis.",
    "mmh3": "mmh3",
    "markupsafe": "markupsafe.",
    "psycopg2": "psycopg2.",
    "ahocorasick": "ahocorasick",
    "setproctitle": "setproctitle",
    "regex": "regex.",
    "ujson": "ujson",
    "xxhash": "xxhash",
}


def main() -> int:
    """Examine each module and print the results; return 1 if a module was not named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="modules with this in their name")
    only = parser.parse_args().only
    found, _ = discover()
    cores = this_machine().cores
    lines: list[str] = []
    losses = asked = 0
    with tempfile.TemporaryDirectory() as folder:
        for kind, modules, name, lock in (
            ("refuses sub-interpreters", REFUSE, "3.13", "advised"),
            ("switches the GIL on", SWITCH, "3.13t", "advised-3.13t"),
        ):
            base = select(found, [name])[0]
            python = probe(locked_python(base, ROOT / "requirements" / f"{lock}.lock", "advised"))
            chosen = {module: begins for module, begins in modules.items() if only in module}
            for place, (module, begins) in enumerate(chosen.items()):
                file = Path(folder) / f"user_{base.minor.replace('.', '_')}_{base.free_threaded:d}_{place}.py"
                file.write_text(f"import {module}\n\n\ndef function():\n    return 1\n")
                asked += 1
                seen = examine(parse_target(f"{file}:function"), python, cores, limit_s=60)
                refusal = next((one for one in seen.place.refusals if one.model == "interpreters"), None)
                named = seen.place.switched_by if base.free_threaded else (refusal.module if refusal else "")
                if seen.error or not named.startswith(begins):
                    losses += 1
                    why = seen.error or (refusal.reason if refusal else "nothing was in the way")
                    lines.insert(0, f"lost: {module} {kind}: named {named or 'nothing'} ({why})")
                else:
                    lines.append(f"{module} {kind}: {named}")
    print("\n".join(lines))
    print(f"{asked - losses} of {asked} named")
    return 1 if losses else 0


if __name__ == "__main__":
    sys.exit(main())
