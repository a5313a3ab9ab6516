"""The name of the program that Python runs, from a command line. Nothing here is large: see headway.live.begin."""

from collections.abc import Sequence
from pathlib import Path

__all__ = ["name_in", "program_in"]


def program_in(arguments: Sequence[str]) -> tuple[str, str]:
    """Return how Python is told what to run, as `m`, `c` or "" for a script, and the module, the code or the script.

    The script is "" if the program comes from stdin. Options behind the program are its own.

    Args:
        arguments: The arguments of the interpreter.
    """
    words = iter(arguments)
    for word in words:
        if word == "-":
            break
        if not word.startswith("-"):
            return "", word
        if word == "--check-hash-based-pycs":
            next(words, "")
        at = next((at for at, letter in enumerate(word) if letter in "cmWX"), 0) if word[1] != "-" else 0
        if at:  # an option with a value, which may be a part of the word: `-um module`, `-Xdev`
            value = word[at + 1 :] or next(words, "")
            if word[at] in "cm":
                return word[at], value
    return "", ""


def name_in(arguments: Sequence[str]) -> str:
    """Return the name of the module or the script that the arguments of an interpreter name; "" if they name none."""
    how, what = program_in(arguments)
    return {"m": what.partition(".")[0], "c": ""}.get(how, Path(what).stem)
