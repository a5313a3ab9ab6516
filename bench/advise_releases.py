"""Check which of 50 functions release the GIL according to `headway advise` against their C source.

The expected answers come from the source, as the note beside each function says. A call releases the GIL
(Py_BEGIN_ALLOW_THREADS) for everything that takes time ("yes"), for nothing ("no"), or for a part that depends on the
arguments given here ("in part"). Differences are printed first.

    .venv/bin/python bench/advise_releases.py
"""

import argparse
import sys
from pathlib import Path

from headway.advice.examined import examine
from headway.advice.holds import Holds, look
from headway.advice.target import parse_target
from headway.host.interpreters import discover, probe, select
from headway.host.machine import this_machine

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
from provision.locked_environment import locked_python

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "bench" / "advised"

EXPECTED = {
    "zlib_compress": "yes",  # Modules/zlibmodule.c, zlib_compress_impl: deflate() without the GIL
    "zlib_decompress": "yes",  # the same, inflate()
    "zlib_crc32": "yes",  # above 5 KB
    "zlib_adler32": "yes",  # above 5 KB
    "bz2_compress": "yes",  # Modules/_bz2module.c, compress()
    "bz2_decompress": "yes",
    "lzma_compress": "yes",  # Modules/_lzmamodule.c
    "lzma_decompress": "yes",
    "sha256_large": "yes",  # Modules/_hashopenssl.c, HASHLIB_GIL_MINSIZE 2048
    "sha256_small": "no",  # below that size
    "blake2b_large": "yes",  # Modules/blake2module.c
    "md5_large": "yes",
    "pbkdf2": "yes",  # PKCS5_PBKDF2_HMAC
    "scrypt": "yes",
    "crypt_random": "yes",  # os.urandom: getrandom() of 1 MB
    "sleep": "yes",  # Modules/timemodule.c
    "read_pipe": "yes",  # os.read
    "write_null": "yes",  # os.write of 8 MB into a file
    "fsync": "yes",
    "select_wait": "yes",
    "lock_wait": "yes",  # a lock that another thread holds: PyThread_acquire_lock_timed
    "queue_wait": "yes",
    "popen_wait": "yes",  # waitpid
    "sqlite_query": "yes",  # Modules/_sqlite: sqlite3_step() of one long statement
    "re_sub": "no",  # Modules/_sre releases it nowhere
    "re_match_slow": "no",
    "json_dumps": "no",  # Modules/_json.c releases it nowhere
    "json_loads": "no",
    "sorted_numbers": "no",  # Objects/listobject.c
    "int_power": "no",  # Objects/longobject.c
    "int_to_text": "no",
    "bytes_find": "no",  # Objects/bytes_methods.c
    "text_replace": "no",
    "text_encode": "no",
    "pickle_dumps": "no",  # Modules/_pickle.c
    "marshal_dumps": "no",
    "struct_pack": "no",
    "base64_encode": "no",  # Modules/binascii.c
    "xml_parse": "no",  # Modules/_elementtree.c, pyexpat
    "csv_parse": "no",
    "decimal_multiply": "no",  # Modules/_decimal
    "collect": "no",  # Python/gc.c
    "deepcopy": "no",
    "compile_source": "no",
    "math_factorial": "no",
    "array_sort": "no",  # sorted(array)
    "python_loop": "no",
    "compress_and_match": "in part",  # half zlib, half re
    "sleep_and_count": "in part",
    "hash_and_loop": "in part",
}


def main() -> int:
    """Check each function and print the results; return 1 if any differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--interpreter", default="3.13")
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    base = select(discover()[0], [options.interpreter])[0]
    python = probe(locked_python(base, ROOT / "requirements" / "advised.lock", "advised"))
    cores = this_machine().cores
    lines: list[str] = []
    losses = 0
    for name, expected in EXPECTED.items():
        if options.only not in name:
            continue
        target = parse_target(f"{FOLDER / 'releases.py'}:{name}")
        seen = examine(target, python, cores, limit_s=60)
        holds = look(target, seen.place, seen.function, cores) if seen.function is not None else seen.error
        if not isinstance(holds, Holds):
            losses += 1
            lines.insert(0, f"lost: {name}: {holds}")
        elif holds.releases != expected:
            losses += 1
            lines.insert(0, f"lost: {name}: {holds.releases} ({holds.held:.1%} held), expected {expected}")
        else:
            lines.append(f"{name}: {holds.releases} ({holds.held:.1%} held, {holds.call_s * 1e3:.3g} ms a call)")
    print("\n".join(lines))
    print(f"{len(lines) - losses} of {len(lines)} as their source has it")
    return 1 if losses else 0


if __name__ == "__main__":
    sys.exit(main())
