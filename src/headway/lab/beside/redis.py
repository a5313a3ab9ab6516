"""The user's Redis: its URL, the check that it answers, and the lab's keys in it.

The lab never flushes the server and lists nothing in it: the lab's keys have known names, and are removed by name. The
URL may hold a password. The password is neither stored nor shown, nor passed to a program among its arguments.
"""

import json
import os
import platform
import subprocess
import urllib.parse
from collections.abc import Sequence

from headway.errors import UsageError
from headway.host.children import clean_environment
from headway.host.interpreters import Interpreter
from headway.lab.beside import PROGRAMS
from headway.lab.beside.environments import Libraries

__all__ = [
    "KEYS",
    "check_redis",
    "check_url",
    "key_prefix",
    "look_after",
    "only_through_a_client",
    "our_keys",
    "without_password",
]

KEYS = 1_000
"""The number of keys that the lab sets, in turn: `<prefix>0` to `<prefix>999`."""


def key_prefix() -> str:
    """Return the prefix of the lab's keys.

    The prefix names the machine and the user, so that no other lab's keys are touched.
    """
    return f"headway-lab:{platform.node()}:{os.getuid()}:"


def our_keys() -> list[str]:
    """Return the names of all keys that a lab of this user on this machine may have left."""
    return [f"{key_prefix()}{name}" for name in (*range(KEYS), "benchmark")]


def only_through_a_client(url: str) -> str:
    """Return why programs without redis-py cannot use the server at `url` for the lab, or ""."""
    parts = urllib.parse.urlsplit(url)
    if parts.password or parts.username:
        return "your Redis needs a password, which other users could read in a program's arguments"
    if parts.scheme != "redis" or parts.query or ":" in (parts.hostname or ""):
        return "C programs reach your Redis only through redis://, without options, over IPv4"
    if parts.path.strip("/") not in {"", "0"}:
        return f"C programs use database 0, but the URL names {parts.path.strip('/')}"
    return ""


def without_password(url: str) -> str:
    """Return a Redis URL without user, password and query, which may be shown and stored."""
    parts = urllib.parse.urlsplit(url)
    where = parts.hostname or ""
    where += f":{parts.port}" if parts.port else ""
    return urllib.parse.urlunsplit((parts.scheme, where, parts.path, "", ""))


def look_after(
    libraries: Libraries, own: Interpreter, url: str, keys: Sequence[str]
) -> subprocess.CompletedProcess[str]:
    """Connect to the server at `url`, report its name and version, and remove `keys`, with `programs/redis_tool.py`."""
    return subprocess.run(
        [own.executable, "-s", str(PROGRAMS / "redis_tool.py")],
        input=json.dumps({"url": url, "keys": list(keys)}),
        capture_output=True,
        text=True,
        env=clean_environment(libraries.paths(own.id, ("redis",))),
        timeout=60,
        check=False,
    )


def check_url(url: str, source: str) -> None:
    """Raise UsageError if a Redis URL cannot be one; `source` says where it comes from."""
    hint = "expected redis://[user:password@]host:port/database; write a `:`, `@` or `/` of a password as %3A, %40, %2F"
    try:
        parts = urllib.parse.urlsplit(url)
        port = parts.port
    except ValueError:
        # The error's own text may hold a piece of a password.
        raise UsageError(f"{source} is not a URL: its port is not a number, or a bracket is open", hint=hint) from None
    schemes = ("redis", "rediss", "unix")
    if parts.scheme not in schemes:
        wrong = f"its scheme is `{parts.scheme}`, expected one of {', '.join(schemes)}"
    elif parts.scheme != "unix" and not parts.hostname:
        wrong = "it names no host"
    elif port == 0:
        wrong = "its port is 0"
    else:
        return
    raise UsageError(f"the URL of {source} does not name a Redis server: {wrong}", hint=hint)


def check_redis(libraries: Libraries, own: Interpreter, url: str) -> str:
    """Return the name of the server that answers at `url`, after removing keys that an earlier run may have left there.

    Raises:
        UsageError: No server answers, or a password is missing or wrong.
    """
    done = look_after(libraries, own, url, our_keys())
    if done.returncode == 0:
        return str(json.loads(done.stdout)["server"])
    reason = (done.stderr.strip() or "no reason given").splitlines()[-1][:120]
    what = "needs another user or password" if done.returncode == 2 else "cannot be used"
    hint = (
        "put them into the URL: redis://user:password@host:port/database"
        if done.returncode == 2
        else "start it, or check host, port, database and TLS (rediss://); without `--redis-url` and "
        "REDIS_URL the lab starts its own server"
    )
    raise UsageError(f"the Redis at {without_password(url)} {what}: {reason}", hint=hint)
