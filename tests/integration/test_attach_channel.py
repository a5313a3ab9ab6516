"""The folder and the socket through which a process answers `headway attach`, against attacks; some tests need root."""

import errno
import fcntl
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from real_programs import LIMIT_S

from headway.errors import RecordingError
from headway.live import attach
from headway.live import channel as channels
from headway.live.channel import Channel
from headway.live.lease import Lease

NOBODY = 65534

pytestmark = pytest.mark.slow
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="plays another user, which only root can")


def peer(channel, code, **options):
    """Run Python code that has `connection`, a socket connected to the channel."""
    text = (
        "import os, socket, sys\nconnection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
        f"connection.connect({channel.path!r})\n{code}\nsys.stdin.read()\n"
    )
    return subprocess.Popen(["/usr/bin/python3", "-c", text], stdin=subprocess.PIPE, cwd="/", **options)


@pytest.mark.parametrize(("user", "named"), [(0, "/run or /var/lib"), (1000, "XDG_RUNTIME_DIR")])
def test_a_place_that_would_do_is_named(monkeypatch, user, named):
    """Where nothing can be written, the hint names a place that is looked at: root's is not $XDG_RUNTIME_DIR."""

    def refuse(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(channels, "_open_own", refuse)
    monkeypatch.setattr(channels.os, "geteuid", lambda: user)

    with pytest.raises(RecordingError, match="Read-only file system") as failed:
        Channel()
    assert named in failed.value.hint
    assert ("XDG_RUNTIME_DIR" in failed.value.hint) == (user != 0)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("connection.send(b'x' * 100000)", "an answer that is not valid"),
        ("[connection.send(b'x' * 1000) for _ in range(10)]", "an answer that is not valid"),
        ("connection.send(b'%s' % b'\\0'.join([b'0' * 32, b'done', b'']))", "an answer that is not valid"),
        ("connection.close()", "closed the connection"),
        ("socket.send_fds(connection, [b'x'], [0] * 20)", "an answer that is not valid"),
        ("", None),
    ],
)
def test_an_answer_is_bounded(code, said):
    """An answer that is too long, endless, foreign or missing is a clear error in time, with no descriptor left."""
    with Channel() as channel, peer(channel, code) as other:
        connection = channel.accept(other.pid, LIMIT_S, lambda: None)
        with connection:
            before = set(os.listdir("/proc/self/fd"))
            if said is None:
                assert channel.receive(connection, other.pid, 0.2, lambda: None) is None
            else:
                with pytest.raises(RecordingError, match=said):
                    channel.receive(connection, other.pid, LIMIT_S, lambda: None)
            assert set(os.listdir("/proc/self/fd")) == before
        other.stdin.close()


def test_a_process_that_is_killed_before_its_answer_has_ended():
    """It closes its connection a moment before its end."""
    with Channel() as channel, peer(channel, "sys.stdin.readline(); os.kill(os.getpid(), 9)") as other:
        target = attach.Target(other.pid, (3, 13), free_threaded=False, started=attach._started(other.pid))
        check = attach._Check(target, lambda: None)
        connection = channel.accept(other.pid, LIMIT_S, lambda: None)
        os.write(other.stdin.fileno(), b"\n")
        with connection, pytest.raises(RecordingError, match=rf"^process {other.pid} has ended$"):
            channel.receive(connection, other.pid, LIMIT_S, check)


@only_root
def test_only_the_process_itself_is_heard():
    """Another process is never accepted, of the same user or another one, even if it knows the path."""
    with Channel() as channel, peer(channel, "connection.send(b'x')", user=NOBODY, group=NOBODY) as other:
        assert channel.accept(os.getpid(), 0.5, lambda: None) is None
        other.stdin.close()


@pytest.mark.parametrize("kind", ["pipe", "file", "unsealed", "long", "closed to writing"])
def test_what_is_no_lease(tmp_path, kind):
    """A descriptor that could hurt us, or cannot be written, is an error and is closed."""
    if kind == "pipe":
        descriptor, other = os.pipe()
        os.close(other)
    elif kind == "file":
        descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
        os.truncate(descriptor, 4096)
    else:
        descriptor = os.memfd_create("page", os.MFD_ALLOW_SEALING)
        os.truncate(descriptor, 4096 * (2 if kind == "long" else 1))
        if kind != "unsealed":
            fcntl.fcntl(descriptor, 1033, 2 | (8 if kind == "closed to writing" else 0))  # F_ADD_SEALS
    with pytest.raises(RecordingError, match="no lease page"):
        Lease(1, descriptor)
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(descriptor)


# ---------------------------------------------------------------- the folder
@pytest.fixture
def own_place():
    """Yield a folder whose path nobody else can write."""
    if os.geteuid() != 0:
        pytest.skip("makes a folder in /run, which only root can")
    path = Path(tempfile.mkdtemp(prefix="headway-test-", dir="/run"))
    yield path
    shutil.rmtree(path)


def test_a_folder_of_ours(own_place):
    """The folder is made with the mode that was asked for, and is used again later."""
    for _ in range(2):
        os.close(channels._open_own(own_place / "a" / "headway", 0o711))
        assert stat.S_IMODE((own_place / "a" / "headway").stat().st_mode) == 0o711


@pytest.mark.parametrize("kind", ["others may write", "sticky", "a link", "a file", "another's"])
def test_no_folder_of_ours(own_place, kind):
    """A folder that another user could have made, or could change, is refused."""
    folder = own_place / "a"
    folder.mkdir()
    if kind == "others may write":
        folder.chmod(0o775)
    elif kind == "sticky":
        folder.chmod(0o1777)
    elif kind == "a link":
        (own_place / "b").mkdir()
        (folder / "headway").symlink_to(own_place / "b")
    elif kind == "a file":
        (folder / "headway").touch()
    else:
        (folder / "headway").mkdir()
        os.chown(folder / "headway", NOBODY, NOBODY)
    with pytest.raises(OSError, match=r"others may write|Not a directory|Too many levels"):
        channels._open_own(folder / "headway", 0o700)
    assert list((own_place / "b").iterdir() if kind == "a link" else []) == []


@only_root
def test_a_user_of_their_own(own_place):
    """A user attaches to their own process through a folder in their own; without one there is a clear error."""
    os.chown(own_place, NOBODY, NOBODY)
    env = {**os.environ, "XDG_RUNTIME_DIR": str(own_place), "HOME": str(own_place), "PYTHONDONTWRITEBYTECODE": "1"}
    code = "import time\nprint('ready', flush=True)\nwhile True: time.sleep(0.001)"
    theirs = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": own_place, "env": env}
    with subprocess.Popen(["/usr/bin/python3", "-c", code], stdout=subprocess.PIPE, text=True, **theirs) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            # The user may not be able to read root's interpreter, so the process changes its user after all imports.
            attaches = (
                "import hmac, os, sys, tempfile\nfrom pathlib import Path\nfrom headway.errors import HeadwayError\n"
                "from headway.live.attach import attach, detach, look_at\n"
                "from headway.live.collect import collecting\n"
                "from headway.library import library_path\n"
                "library_path()\n"
                f"os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})\n"
                "try:\n"
                "    with collecting(Path('trace.hwt'), at_once=True) as door:\n"
                f"        held = attach(look_at({process.pid}), door)\n"
                f"        print(detach(look_at({process.pid})))\n"
                "        held.close()\n"
                "except HeadwayError as error:\n"
                "    sys.exit(error.message + error.hint)\n"
            )

            def run_there():
                command = [sys.executable, "-c", attaches]
                return subprocess.run(command, cwd=own_place, env=env, capture_output=True, text=True, check=False)

            done = run_there()
            assert (done.returncode, done.stdout) == (0, f"the recording into {own_place}/trace.hwt\n"), done.stderr
            assert stat.S_IMODE((own_place / "headway").stat().st_mode) == 0o700
            assert list((own_place / "headway").iterdir()) == []
            env.update(XDG_RUNTIME_DIR="/tmp", HOME="/tmp")
            done = run_there()
            assert done.returncode == 1
            assert "others may write to /tmp" in done.stderr
            assert "XDG_RUNTIME_DIR" in done.stderr
        finally:
            process.kill()
