"""Tries other interpreters than the user's own: finds where the function's imports are available, or installs them."""

import hashlib
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from headway.advice.examined import CALL_LIMIT_S, Place, Refusal, examine
from headway.advice.target import Target
from headway.host.children import clean_environment
from headway.host.interpreters import Interpreter, discover, select
from headway.host.keeper import Keeper
from headway.host.own_folders import mark, remove_own
from headway.host.paths import libraries_folder
from headway.lab.beside.environments import find_uv

__all__ = ["chosen", "places"]

_INSTALL_LIMIT_S = 300.0
_MOST_OF_A_REASON = 400
_DONE = ".headway-complete"


def chosen(own: Interpreter, wanted: Sequence[str] | None) -> list[Interpreter]:
    """Return the interpreters to try besides the user's own: those that are named, or the newest free-threaded one.

    Raises:
        UsageError, InterpreterError: A named interpreter does not exist or is not one.
    """
    found, _ = discover()
    if wanted is not None:
        named = select(found, wanted) if wanted else []
    else:
        named = [one for one in select(found) if one.free_threaded][-1:]
    return [one for one in named if one.name != own.name and one.id != own.id]


def places(
    target: Target,
    home: Place,
    cores: Sequence[int],
    *,
    lost: int,
    interpreters: Sequence[Interpreter],
    install: bool,
    keeper: Keeper,
    say: Callable[[str], None],
    time_left: Callable[[], bool] = lambda: True,
) -> tuple[list[Place], list[Refusal], list[str]]:
    """Return the other interpreters that run the function, the refusals of the rest, and notes for the user.

    Args:
        target: The function.
        home: The user's own interpreter.
        cores: The cores on which processes run.
        lost: The number of inputs that cannot be loaded at home: a model elsewhere must have the same ones.
        interpreters: The interpreters to try (`chosen`).
        install: Libraries may be installed for them, into the cache.
        keeper: Ends the processes that were begun if this process is killed.
        say: Called before anything is installed.
        time_left: Called before an interpreter is asked; if it returns False, that one is left out.
    """
    found, refusals, notes = [], [], []
    for interpreter in interpreters:
        if not time_left():
            notes.append(
                f"{interpreter.name} was not tried: the time was up (`--interpreter {interpreter.name}` tries it)"
            )
            continue
        # As of a package that is installed to be edited: the other interpreter does not know that folder.
        paths: tuple[str, ...] = (home.folder,) if home.folder and home.folder not in target.paths else ()
        if home.direct:
            shown = ", ".join(home.direct)
            notes.append(
                f"{interpreter.name} was not tried: the function imports {shown}, installed from a file, a folder or a URL, and the index may have another library of that name"
            )
            continue
        if home.distributions:
            shown = ", ".join(f"{name} {version}" for name, version in sorted(home.distributions.items()))
            if not install:
                notes.append(
                    f"{interpreter.name} was not tried: the function imports {shown}; `--install` installs that for it, into the cache"
                )
                continue
            folder, problem, note = _installed(interpreter, home.distributions, say)
            notes += [note] if note else []
            if problem:
                refusals.append(Refusal(interpreter.name, "", f"its imports cannot be installed there: {problem}"))
                continue
            paths = (*paths, str(folder))
        say(f"checking {target.words} on {interpreter.name}: import, pickling, first calls")
        seen = examine(target, interpreter, cores, limit_s=CALL_LIMIT_S, paths=paths, keeper=keeper)
        if seen.function is None:
            refusals.append(Refusal(interpreter.name, "", seen.error, seen.missing))
            continue
        if len(seen.lost) != lost:
            reason = f"it has not the same inputs: {len(seen.lost)} cannot be loaded there, and {lost} at home"
            refusals.append(Refusal(interpreter.name, "", reason))
            continue
        refusals += [one for one in seen.place.refusals if one.model == "threads"]
        if interpreter.free_threaded and seen.place.switched_by:
            notes.append(f"on {interpreter.name} the import of {seen.place.switched_by} switches the GIL on")
        found.append(seen.place)
    return found, refusals, notes


def _installed(
    interpreter: Interpreter, distributions: Mapping[str, str], say: Callable[[str], None]
) -> tuple[Path, str, str]:
    """Return the folder with these distributions for an interpreter; the reason if there is none; and a note.

    If they are not there yet, uv installs them: in the versions of the user's own environment, or if one of these has
    no wheel for the interpreter, in whichever versions have one.
    """
    pinned = [f"{name}=={version}" for name, version in sorted(distributions.items())]
    identity = "|".join([interpreter.executable, interpreter.version, *pinned])
    folder = libraries_folder() / f"advise-{interpreter.name}-{hashlib.sha256(identity.encode()).hexdigest()[:12]}"
    if (folder / _DONE).is_file():
        return folder, "", (folder / _DONE).read_text()
    uv = find_uv()
    if not uv:
        return folder, "the installation needs uv, which was not found (put uv on PATH, or set HEADWAY_UV)", ""
    problem = note = ""
    for wanted in (pinned, sorted(distributions)):
        if wanted is not pinned:
            note = f"on {interpreter.name} the imports have other versions, because there are no wheels of yours: {problem}"
        say(f"installing {', '.join(wanted)} for {interpreter.name}, into {folder}")
        if not remove_own(folder):
            return folder, f"{folder} exists and was not made by Headway", ""
        folder.mkdir(parents=True)
        mark(folder)
        command = [uv, "pip", "install", "--quiet", "--no-python-downloads", "--only-binary", ":all:"]
        command += ["--python", interpreter.executable, "--target", str(folder), *wanted]
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_INSTALL_LIMIT_S,
                env=clean_environment(),
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = str(error)
            continue
        if done.returncode == 0:
            (folder / _DONE).write_text(note)
            return folder, "", note
        lines = [line.strip(" │├╰─▶×") for line in done.stderr.splitlines()]  # noqa: RUF001
        problem = " ".join(filter(None, lines))[:_MOST_OF_A_REASON] or "uv gave no reason"
    remove_own(folder)
    return folder, problem, ""
