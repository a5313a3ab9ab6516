"""The hooks by which servers watch their workers."""

import io
import os
import signal
import sys
from types import SimpleNamespace

import pytest

import headway
from headway.errors import NativeError, RecordingError
from headway.live import preset, services, watching


@pytest.fixture
def begun(monkeypatch):
    """Return the list of watches that were requested, none of which begins."""
    found = []
    monkeypatch.setattr(services, "watch", lambda **options: found.append(options))
    monkeypatch.setattr(preset, "_said", False)
    return found


def worker(**settings):
    """Return a worker of gunicorn with these settings; by default it keeps its user and group."""
    return SimpleNamespace(cfg=SimpleNamespace(**{"uid": os.geteuid(), "gid": os.getegid()} | settings))


@pytest.mark.parametrize("settings", [{"uid": os.geteuid() + 1}, {"gid": os.getegid() + 1}], ids=["user", "group"])
def test_no_watcher_keeps_rights_that_a_worker_gives_up(begun, capsys, settings):
    """The hook that runs before a worker becomes another user starts no watcher, and names the hook that runs later."""
    services.post_fork(None, worker(**settings))

    assert begun == []
    assert "post_worker_init instead" in capsys.readouterr().err


def test_a_worker_that_stays_the_same_user_is_watched_from_its_fork_on(begun, capsys):
    """Both hooks watch a worker whose user and group stay as they are."""
    services.post_fork(None, worker())
    services.post_worker_init(worker())

    assert begun == [{"name": "gunicorn", "required": True}] * 2
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT, signal.SIGINT])
def test_a_worker_that_is_ended_as_its_watcher_starts_ends(monkeypatch, number):
    """The handlers of gunicorn's master, which a new worker has, would lose the signal; they are there again afterwards."""
    lost = []
    monkeypatch.setattr(services, "watch", lambda **_: os.kill(os.getpid(), number))
    before = signal.signal(number, lambda *_: lost.append(number))
    try:
        with pytest.raises(SystemExit) as ended:
            services.post_fork(None, worker())
        monkeypatch.setattr(services, "watch", lambda **_: None)
        services.post_fork(None, worker())
        os.kill(os.getpid(), number)
    finally:
        signal.signal(number, before)

    assert ended.value.code == 0
    assert lost == [number]


def test_a_service_that_has_closed_its_stderr_runs(monkeypatch):
    """A process that cannot be watched, and cannot be told so, answers its request."""

    def cannot(**_):
        raise RecordingError("there is no native library")

    monkeypatch.setattr(services, "watch", cannot)
    monkeypatch.setattr(preset, "_said", False)
    stderr = io.StringIO()
    stderr.close()
    monkeypatch.setattr(sys, "stderr", stderr)

    assert services.watched_wsgi(lambda environ, start_response: [b"ok"])({}, lambda *_: None) == [b"ok"]


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (NativeError("there is no native library"), "there is no native library"),
        (RecordingError("no process starts", hint="wait"), "no process starts; wait"),
        (KeyError("_set_native_id"), "KeyError: '_set_native_id'"),
    ],
)
def test_a_process_that_cannot_be_watched_runs(monkeypatch, tmp_path, capsys, error, reason):
    """`headway.watch()` reports once why the process is not watched; the watch that it returns does nothing."""

    def cannot():
        raise error

    monkeypatch.setattr(watching, "the_recorder", cannot)
    monkeypatch.setattr(preset, "_said", False)
    watches = [headway.watch(tmp_path / "stalls") for _ in range(2)]
    for one in watches:
        one.record()
        one.stop()
        assert one.finish()
        assert not one.watcher

    assert capsys.readouterr().err == f"headway: process {os.getpid()} is not watched: {reason}\n"
    assert not services.watch_worker(folder=tmp_path / "stalls")
    with pytest.raises(type(error)):
        headway.watch(tmp_path / "stalls", required=True)


@pytest.mark.parametrize("executable", ["/usr/sbin/uwsgi", "", None])
def test_a_program_that_embeds_python_is_not_started_as_a_watcher(monkeypatch, tmp_path, executable):
    """The interpreter is that of the virtual environment, else that of the installation; without any, the watch fails."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    monkeypatch.setattr(sys, "executable", executable)
    for name in ("exec_prefix", "base_exec_prefix"):
        monkeypatch.setattr(sys, name, str(tmp_path / name))
        (tmp_path / name / "bin").mkdir(parents=True)
    installed, ours = (tmp_path / name / "bin" / version for name in ("base_exec_prefix", "exec_prefix"))

    with pytest.raises(RecordingError, match=f"bin has no {version}"):
        watching._interpreter()
    for path in (installed, ours):
        path.write_text("")
        path.chmod(0o755)
        assert watching._interpreter() == str(path)


def test_an_interpreter_is_its_own(monkeypatch):
    """The interpreter that runs is taken, whatever its version's name in the prefix is."""
    monkeypatch.setattr(sys, "executable", "/opt/bin/.python-wrapped")

    assert watching._interpreter() == "/opt/bin/.python-wrapped"
