"""Names in a form that every format accepts."""

from headway.traces.model import Frame

__all__ = ["clean", "location"]


def clean(text: str) -> str:
    r"""Return text that UTF-8 can encode: undecodable bytes of a file's name become escapes such as `\udc80`."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def location(frame: Frame) -> str:
    """Return a frame as one line, `app.py:12 handle`; `?` for an unknown frame."""
    return clean(str(frame)) if frame.filename else clean(frame.function)
