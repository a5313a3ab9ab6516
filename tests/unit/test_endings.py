"""How a process ended, as text, and what it wrote last."""

import io
import signal

import pytest

from headway.host.endings import ended_by, tail_of
from headway.lab.beside.servers import _Server
from headway.provision.commands import failed_command


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "exit code 0"),
        (3, "exit code 3"),
        (-signal.SIGSEGV, "killed by SIGSEGV"),
        (-(signal.SIGRTMIN + 1), f"killed by signal {signal.SIGRTMIN + 1}"),
    ],
)
def test_an_end_is_an_exit_code_or_a_signal(code, text):
    """A signal has its name if it has one; most real-time signals have none."""
    assert ended_by(code) == text


def test_a_real_time_signal_ends_a_server_or_a_command_like_any_other(tmp_path):
    """The reason of the launch, and the error of the command, tell of a signal without a name."""
    code = -(signal.SIGRTMIN + 1)
    process = type("Ended", (), {"poll": lambda _: code})()

    said = _Server("http", process, io.BytesIO(b"last words\n"), {}).died()
    assert said == f"the http server was killed by signal {-code}: last words"
    assert f"failed (killed by signal {-code}): no output" in failed_command("make", code, "", tmp_path / "log").message


def test_the_end_of_a_file_may_begin_within_a_letter():
    """A letter of which only the last bytes are left is replaced."""
    file = io.BytesIO("abé!".encode())

    assert tail_of(file, 100) == "abé!"
    assert tail_of(file, 2) == "\ufffd!"
