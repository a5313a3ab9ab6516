"""The script that `headway attach`, `top` and `detach` let a running process execute (attach.py).

The script first connects to us (channel.py), and does nothing if nobody answers there any more. It leaves no name in the
program, no entry in sys.path or sys.path_importer_cache, and raises nothing. Its code is in no file: see bring.py of
headway/agent/startup. The modules of the agent stay in sys.modules.
"""

from collections.abc import Sequence
from typing import Final

from headway.agent import AGENT_PATH

__all__ = ["EARLY", "script"]

EARLY: Final = "early"
"""The status of an answer of a process that is importing a module which the call needs, so that it cannot be made yet."""

_CODE: Final = """\
def _headway():
    # In the first milliseconds of a process, the main thread may be in the middle of importing `os`, or what we import.
    import posix, sys
    # A child that was forked meanwhile is not meant; nor is anybody where whoever asked has given up.
    if posix.getpid() != {pid}:
        return
    posix.stat({socket!r})
    import _socket
    channel = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)
    interrupted = False
    try:
        channel.settimeout(0)
        channel.connect({socket!r})
        status, answer, descriptors = {early!r}, "", ()
        try:
            specs = [getattr(sys.modules.get(name), "__spec__", None) for name in ("os", "threading")]
            if not any(getattr(one, "_initializing", False) for one in specs):
                given = {{"__name__": "headway_bring"}}
                exec(compile({bring!r}, "<headway>/startup/bring.py", "exec"), given)
                [{modules}] = given["bring"]({agent!r}, *{names!r})
                answer, descriptors = {call}
                status = "done"
        except BaseException as error:
            status, answer = "failed", str(error) or type(error).__name__
            if isinstance(error, ImportError) and "circular import" in answer:
                # The main thread is importing a module that those need.
                status = {early!r}
            interrupted = isinstance(error, KeyboardInterrupt)
        text = "\\0".join(({token!r}, status, answer.replace("\\0", "?")[:10000]))
        rights = b"".join(one.to_bytes(4, sys.byteorder) for one in descriptors)
        try:
            channel.sendmsg(
                [text.encode("utf-8", "replace")],
                [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)] if rights else [],
            )
        except OSError:
            if status == "done":
                {undo}
        finally:
            for one in descriptors:
                posix.close(one)
    except OSError:
        pass
    finally:
        channel.close()
    if interrupted:
        import _thread
        _thread.interrupt_main()
try:
    _headway()
except BaseException:
    pass
"""


def script(pid: int, modules: Sequence[str], call: str, undo: str, *, socket: str, token: str) -> str:
    """Return the script that makes a call in a process, and answers with the call's result.

    Args:
        pid: The process's id, as the process itself sees it.
        modules: The modules of the agent that the call uses, by whose names it has them.
        call: An expression for a pair: the answer's text, and the descriptors to send.
        undo: A statement for the case that the answer does not reach us.
        socket: The path of the socket to which the process connects.
        token: What the process must repeat.
    """
    return _CODE.format(
        pid=pid,
        early=EARLY,
        modules=", ".join(modules),
        names=tuple(modules),
        call=call,
        undo=undo,
        bring=(AGENT_PATH / "startup" / "bring.py").read_text(encoding="utf-8"),
        agent=str(AGENT_PATH),
        socket=socket,
        token=token,
    )
