r"""Make text of another program safe to show: escape what a terminal or a page would obey.

Names of threads, files, functions and programs may hold anything: escape sequences, newlines, overrides of the
direction of writing. Code that shows such a name must call `printable` first. Code that stores such a name (JSON,
Parquet) keeps the name as it is, in the escapes of that format.
"""

__all__ = ["printable"]


def printable(text: str) -> str:
    r"""Return the text with each character escaped that is neither visible nor a blank: `\x1b`, `\u202e`."""
    return text if text.isprintable() else "".join(one if one.isprintable() else _escape(one) for one in text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
