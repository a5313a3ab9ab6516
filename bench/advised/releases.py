"""Functions whose C source says whether they release the GIL, for bench/advise_releases.py."""

import array
import base64
import bz2
import copy
import csv
import decimal
import gc
import hashlib
import io
import json
import lzma
import marshal
import math
import os
import pickle
import queue
import re
import select
import sqlite3
import struct
import subprocess
import tempfile
import threading
import time
import xml.etree.ElementTree as ET
import zlib

_TEXT = "\n".join(f"{place},{place * 7919 % 10007},traveller {place % 97}" for place in range(6000))
_BYTES = _TEXT.encode() * 4
_ZLIB, _BZ2, _LZMA = zlib.compress(_BYTES), bz2.compress(_BYTES), lzma.compress(_BYTES)
_LARGE = bytes(8 << 20)
_SMALL = bytes(1000)
_RECORDS = [{"id": place, "name": f"traveller {place}", "tags": ["a", str(place)]} for place in range(2000)]
_JSON = json.dumps(_RECORDS)
_NUMBERS = [place * 7919 % 100003 for place in range(50_000)]
_ARRAY = array.array("d", map(float, _NUMBERS))
_XML = "<r>" + "".join(f"<t id='{place}'/>" for place in range(5000)) + "</r>"
_SOURCE = "\n".join(f"def f{place}(a, b):\n    return a + b * {place}" for place in range(500))
_INT = 3**60_000


def zlib_compress():
    zlib.compress(_BYTES)


def zlib_decompress():
    zlib.decompress(_ZLIB)


def zlib_crc32():
    zlib.crc32(_LARGE)


def zlib_adler32():
    zlib.adler32(_LARGE)


def bz2_compress():
    bz2.compress(_BYTES)


def bz2_decompress():
    bz2.decompress(_BZ2)


def lzma_compress():
    lzma.compress(_BYTES, preset=1)


def lzma_decompress():
    lzma.decompress(_LZMA)


def sha256_large():
    hashlib.sha256(_LARGE)


def sha256_small():
    for _ in range(1000):
        hashlib.sha256(_SMALL)


def blake2b_large():
    hashlib.blake2b(_LARGE)


def md5_large():
    hashlib.md5(_LARGE)


def pbkdf2():
    hashlib.pbkdf2_hmac("sha256", b"ticket", b"salt", 10_000)


def scrypt():
    hashlib.scrypt(b"ticket", salt=b"salt", n=2048, r=8, p=1)


def crypt_random():
    os.urandom(1 << 20)


def sleep():
    time.sleep(0.003)


def read_pipe():
    reader, writer = os.pipe()
    threading.Timer(0.01, os.write, (writer, b".")).start()
    os.read(reader, 1)
    os.close(reader)
    os.close(writer)


def write_null():
    with tempfile.TemporaryFile() as file:
        os.write(file.fileno(), _LARGE)


def fsync():
    with tempfile.TemporaryFile() as file:
        os.write(file.fileno(), _LARGE)
        os.fsync(file.fileno())


def select_wait():
    select.select([], [], [], 0.003)


def lock_wait():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=0.003)


def queue_wait():
    try:
        queue.SimpleQueue().get(timeout=0.003)
    except queue.Empty:
        pass


def popen_wait():
    subprocess.run(["/bin/sleep", "0.02"], check=True)


_base = None


def sqlite_query():
    global _base
    if _base is None:
        _base = sqlite3.connect(":memory:", check_same_thread=False)
    _base.execute(
        "with recursive n(i) as (select 1 union all select i + 1 from n where i < 30000) select sum(i % 7) from n"
    ).fetchall()


def re_sub():
    re.sub(r"\b(\w)\w*", r"\1", _TEXT)


def re_match_slow():
    re.match(r"(a+)+$", "a" * 18 + "b")


def json_dumps():
    json.dumps(_RECORDS)


def json_loads():
    json.loads(_JSON)


def sorted_numbers():
    sorted(_NUMBERS)


def int_power():
    _INT * _INT


def int_to_text():
    len(hex(_INT)) + (_INT.bit_length() and len(str(_INT >> 85_000)))


def bytes_find():
    _LARGE.find(b"x")


def text_replace():
    _TEXT.replace("traveller", "passenger")


def text_encode():
    _TEXT.encode("utf-16")


def pickle_dumps():
    pickle.dumps(_RECORDS)


def marshal_dumps():
    marshal.dumps(_RECORDS)


def struct_pack():
    struct.pack(f"{len(_NUMBERS)}d", *_NUMBERS)


def base64_encode():
    base64.b64encode(_LARGE)


def xml_parse():
    ET.fromstring(_XML)


def csv_parse():
    list(csv.reader(io.StringIO(_TEXT)))


def decimal_multiply():
    with decimal.localcontext() as context:
        context.prec = 2000
        decimal.Decimal(2).sqrt()


def collect():
    gc.collect()


def deepcopy():
    copy.deepcopy(_RECORDS[:200])


def compile_source():
    compile(_SOURCE, "source", "exec")


def math_factorial():
    math.factorial(5000)


def array_sort():
    sorted(_ARRAY)


def python_loop():
    total = 0
    for number in range(30_000):
        total += number & 3
    return total


def compress_and_match():
    zlib.compress(_BYTES[:300_000])
    re.sub(r"\b(\w)\w*", r"\1", _TEXT)


def sleep_and_count():
    time.sleep(0.003)
    for _ in range(100_000):
        pass


def hash_and_loop():
    hashlib.sha256(_LARGE[: 4 << 20])
    for _ in range(200_000):
        pass
