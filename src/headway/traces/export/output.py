"""Writes a file so that it exists complete or not at all."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from headway.errors import HeadwayError

__all__ = ["written_whole"]


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing; it gets its name, and replaces an older file, when the block ends without an error.

    Until then it is a hidden file in the same folder. An error removes the hidden file.

    Raises:
        HeadwayError: The file cannot be written.
    """
    if path.exists() and not path.is_file():
        raise HeadwayError(f"cannot write `{path}`: it is not a regular file", hint="give the name of a new file")
    target = Path(os.path.realpath(path))
    beside = target.with_name(f".headway-{secrets.token_hex(8)}")
    try:
        with beside.open("xb") as file:
            yield file
        beside.replace(target)
    except OSError as error:
        raise HeadwayError(f"cannot write `{path}`: {error.strerror or error}", hint="check the folder") from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()
