"""Waits until a descriptor can be read, whatever its number is: select() refuses descriptors from 1024 on."""

import selectors

__all__ = ["becomes_readable"]


def becomes_readable(descriptor: int, timeout_s: float) -> bool:
    """Tell whether a descriptor is readable, or becomes so within a time. Raises OSError if no descriptor is left."""
    # Under eventlet the module `select` has no poll(), and this selector is one that fits.
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        return bool(selector.select(timeout_s))
