"""Functions that call the standard library as users do, for bench/advise_corpus.py."""

import bz2
import decimal
import difflib
import hashlib
import http.client
import json
import re
import sqlite3
import subprocess
import xml.etree.ElementTree as ET
import zlib
from pathlib import Path

_TEXT = "\n".join(
    f"{place},{place * 7919 % 10007},traveller {place % 97},platform {place % 24}" for place in range(4000)
)
_BYTES = _TEXT.encode() * 8
_RECORDS = [{"id": place, "name": f"traveller {place}", "tags": ["a", "b", str(place)]} for place in range(3000)]
_JSON = json.dumps(_RECORDS)
_XML = "<r>" + "".join(f"<t id='{place}'><n>traveller {place}</n></t>" for place in range(3000)) + "</r>"
_NUMBERS = [place * 7919 % 100003 / 7 for place in range(20000)]
_FILE = Path(__file__).with_name("of_stdlib.py")


def json_dumps():
    return len(json.dumps(_RECORDS))


def json_loads():
    return len(json.loads(_JSON))


def zlib_compress():
    return len(zlib.compress(_BYTES))


def bz2_compress():
    return len(bz2.compress(_BYTES[:200_000]))


def sha256_large():
    return hashlib.sha256(_BYTES * 8).hexdigest()


def pbkdf2():
    return hashlib.pbkdf2_hmac("sha256", b"ticket", b"salt", 30_000)


def re_findall():
    return len(re.findall(r"\b\w*(\w)\w*\1\w*\b", _TEXT))


def sort_numbers():
    return sorted(_NUMBERS, key=lambda value: -value)[0]


def difflib_ratio():
    return difflib.SequenceMatcher(None, _TEXT[:1500], _TEXT[700:2200]).ratio()


def sqlite_query():
    with sqlite3.connect(":memory:") as base:
        base.execute("create table t (a int, b int, c text)")
        base.executemany("insert into t values (?, ?, ?)", [(i, i % 97, str(i)) for i in range(5000)])
        return base.execute("select b, count(*), max(a) from t group by b order by 2, 3").fetchall()[0]


def xml_parse():
    return len(ET.fromstring(_XML))


def decimal_sqrt():
    with decimal.localcontext() as context:
        context.prec = 3000
        return str(decimal.Decimal(2).sqrt())[:20]


def run_program():
    return subprocess.run(["/bin/true"], check=True).returncode


def http_get(port):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/sleep?period=0.01")
    answer = len(connection.getresponse().read()) > 0
    connection.close()
    return answer
