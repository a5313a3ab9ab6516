"""Takes real arguments: runs a command of the user's, and collects the arguments of its calls of the function."""

import contextlib
import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from headway.advice.request import own_interpreter
from headway.advice.target import MOST_INPUTS, Target, check_names, with_pickled
from headway.agent import AGENT_PATH
from headway.errors import UsageError

__all__ = ["observed"]

_NOT_OBSERVED = "which is not observed"
"""Words of agent/observe/sitecustomize.py: the name is that of an object which is no function."""


@contextlib.contextmanager
def observed(target: Target, command: str, python: str, say: Callable[[str], None]) -> Iterator[Target]:
    """Run a command, and yield the target with the arguments of its calls; without a command, the target as it is.

    Every Python process that the command starts gives the function other code when its module is imported. That code
    pickles the arguments before each call and then calls the function. Calls that raise, and those that a call of the
    function makes, are not taken. Only functions of Python's are observed: a class, or an object made by functools, may be
    used for more than calls, and stays as it is. The pickles are deleted at the end of the block.

    Ctrl-C ends the command as it would without us, and the calls until then are used. A second one kills the command.

    Args:
        target: The function.
        command: A command as for a shell, though no shell runs it.
        python: The user's own Python as `own_interpreter` takes it, whose folder is put first on the command's PATH;
            "" for none.
        say: Called with the command, and with its result.

    Raises:
        UsageError: The command cannot be run, none of its calls could be collected, or the function's name is wrong.
        InterpreterError: The user's own Python is not there.
    """
    if not command:
        yield target
        return
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"the command {command!r} cannot be read: {error}", hint="quote it as for a shell") from error
    if not words:
        raise UsageError("the command to observe is empty", hint='name one, such as --observe "pytest tests"')
    check_names(target)  # the command may take long
    with tempfile.TemporaryDirectory(prefix="headway-observed-") as folder:
        say(f"observing {command}")
        code = _run(words, target, Path(folder), python, say)
        calls = Path(folder) / "calls.pickle"
        taken = sorted(Path(folder).glob("*.taken"))
        calls.write_bytes(b"".join(one.read_bytes() for one in taken))
        counts = [one.read_text() for one in sorted(Path(folder).glob("*.said"))]
        problems = sorted({line for one in counts for line in one.splitlines()})
        raised = sum(one.stat().st_size for one in Path(folder).glob("*.raised"))
        if raised:
            problems.append(f"{raised} call{'s' * (raised != 1)} that raised {'is' if raised == 1 else 'are'} left out")
        if not calls.stat().st_size:
            called = f"{target.name} of {target.module}"
            never = f"the command never calls {called} (exit code {code})"
            if any(Path(folder).glob("*.begun")):
                never = f"the command ended before a call of {called} returned (exit code {code})"
            why = "; ".join(problems) or never
            hint = f"choose a command that imports {target.module} and calls {target.name} with arguments that can be pickled"
            if any(Path(folder).glob("*.begun")):
                hint += ", and returns a result"
            if _NOT_OBSERVED in why:
                hint = "only calls of a function of Python's are observed: give inputs with --inputs or --args"
            raise UsageError(f"no calls were observed in {command!r}: {why}", hint=hint)
        for line in problems:
            say(line)
        paths = [
            line for one in sorted(Path(folder).glob("*.path")) for line in os.fsdecode(one.read_bytes()).split("\n")
        ]
        # The arguments' classes may be in a folder that only the command has on its path, as pytest has that of tests.
        yield replace(with_pickled(target, calls), also=tuple(dict.fromkeys((*target.also, *filter(None, paths)))))


def _run(words: list[str], target: Target, folder: Path, python: str, say: Callable[[str], None]) -> int:
    agent = AGENT_PATH / "observe"
    # The folder of a bare name, such as python3.13, would be the current one.
    folders = [str(Path(own_interpreter(python).executable).parent)] if python else []
    folders += filter(None, [os.environ.get("PATH", "")])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(agent), *filter(None, [os.environ.get("PYTHONPATH", "")])]),
        "PATH": os.pathsep.join(folders),
        "HEADWAY_OBSERVE_MODULE": target.module,
        "HEADWAY_OBSERVE_NAME": target.name,
        "HEADWAY_OBSERVE_FOLDER": str(folder),
        "HEADWAY_OBSERVE_MOST": str(MOST_INPUTS),
    }
    try:
        # The command's output goes to stderr, so that it does not mix with our data on stdout.
        child = subprocess.Popen(words, env=environment, cwd=target.cwd, stdout=2)
    except OSError as error:
        raise UsageError(
            f"{words[0]} cannot be run: {error.strerror}", hint="name a command as you would type it"
        ) from error
    try:
        return child.wait()
    except KeyboardInterrupt:
        # The terminal has sent it to the command, too, which may need time to end, as a server does.
        say("waiting for the command to end; Ctrl-C again kills it")
        return child.wait()
    finally:
        child.kill()  # does nothing to a child that has been waited for
        child.wait()
