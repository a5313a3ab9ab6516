"""The options of a policy, as a trace has them (`policy_options` of native/trace/format.h)."""

from dataclasses import dataclass
from typing import final

__all__ = ["PolicyOptions"]

_Options = tuple[tuple[str, int], ...]


@final
@dataclass(frozen=True)
class PolicyOptions:
    """The values of all options of a policy and of the engine, as pairs of a name and a value.

    Attributes:
        changed: The options that differed from their presets.
        presets: The others. A later version may have other presets.
    """

    changed: _Options = ()
    presets: _Options = ()

    @classmethod
    def parse(cls, text: str) -> "PolicyOptions | None":
        """Return the options that a file has; None: it does not have them, or a policy's own name for one is unusable."""
        changed, mark, presets = text.partition(";")
        try:
            return cls(_parsed(changed), _parsed(presets)) if mark else None
        except ValueError:
            return None

    def in_file(self) -> str:
        """Return the options as a file has them."""
        return ";".join(" ".join(f"{name}={value}" for name, value in part) for part in (self.changed, self.presets))

    def __str__(self) -> str:
        """Return in words the options that differed from their presets; "" if none did."""
        return ", ".join(f"{name}={value}" for name, value in self.changed)


def _parsed(text: str) -> _Options:
    """Parse `name=value` pairs. Raises ValueError."""
    pairs = [one.rpartition("=") for one in text.split(" ") if one]
    if not all(name for name, _, _ in pairs):
        raise ValueError("an option has no name")
    return tuple((name, int(value)) for name, _, value in pairs)
