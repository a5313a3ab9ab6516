"""Parts of a package that are imported on first use, since most processes need a few of them only."""

import importlib
from collections.abc import Callable, Mapping

__all__ = ["imported_on_first_use"]


def imported_on_first_use(package: str, places: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package that imports its parts when they are first asked for (PEP 562).

    Args:
        package: The package's name.
        places: For the name of each part, the module that has it, without "headway.".

    The returned function raises AttributeError for any other name.
    """

    def get(name: str) -> object:
        if name in places:
            return getattr(importlib.import_module(f"headway.{places[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get
