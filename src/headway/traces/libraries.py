"""Tells the files of the standard library and of installed packages."""

import functools
import re
from typing import Final

from headway.traces.frames import Frame

__all__ = ["is_library", "is_standard"]

_FOLDER: Final = r"(?:/lib(?:64)?/python3\.\d+t?|/python3\d+t?\.zip)/(?!bin/)"
"""The standard library's folder, which ends in `t` in a free-threaded build, or its archive; a `bin` is none of its parts."""
_PACKAGES: Final = "(?:site|dist)-packages/"
_STANDARD: Final = re.compile(rf"{_FOLDER}(?!{_PACKAGES})|^<frozen ")
_LIBRARIES: Final = re.compile(rf"/{_PACKAGES}|{_FOLDER}|^<frozen ")


@functools.lru_cache(maxsize=8192)
def is_library(frame: Frame) -> bool:
    """Tell whether a frame is in the standard library or an installed package, and not in the program itself."""
    return _LIBRARIES.search(frame.filename) is not None


def is_standard(frame: Frame) -> bool:
    """Tell whether a frame is in the standard library."""
    return _STANDARD.search(frame.filename) is not None
