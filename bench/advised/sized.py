"""Functions whose time grows with their argument, for bench/advise_break_even.py."""

import hashlib
import json
import re
import sqlite3
import time
import zlib

_WORDS = "travellers left for platform nine\n"
_BLOCK, _TEXT = bytes(64 << 10), _WORDS.encode() * 200


def count(size):
    for _ in range(size):
        pass
    return size


def squares(size):
    return sum(number * number for number in range(size))


def match(size):
    return len(re.findall(r"\b(\w)\w*\b", _WORDS * size))


def to_json(size):
    return len(json.dumps(list(range(size))))


def sort(size):
    return sorted(range(size, 0, -1), key=lambda value: value & 1023)[0]


def digest(size):
    return hashlib.pbkdf2_hmac("sha256", b"ticket", b"salt", size)


def checksum(size):
    found = 0
    for _ in range(size):
        found = zlib.crc32(_BLOCK, found)
    return found


def pack(size):
    packer = zlib.compressobj(1)
    return sum(len(packer.compress(_TEXT)) for _ in range(size))


def query(size):
    with sqlite3.connect(":memory:") as base:
        return base.execute(
            f"with recursive n(i) as (select 1 union all select i + 1 from n where i < {size}) select sum(i % 7) from n"
        ).fetchone()


def wait(size):
    time.sleep(size / 1e6)
    return size
