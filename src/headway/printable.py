r"""Text of another program, such that a terminal or a page shows it and does not obey it.

Names of threads, files, functions and programs may hold anything: escape sequences, newlines, overrides of the direction
of writing. What shows such a name calls `printable` first; what stores it (JSON, Parquet) keeps it as it is, in the
format's own escapes.
"""

__all__ = ["printable"]


def printable(text: str) -> str:
    r"""Return text with everything in it that is no character to be seen, but a blank, as an escape: `\x1b`, `\u202e`."""
    return text if text.isprintable() else "".join(one if one.isprintable() else _escape(one) for one in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
