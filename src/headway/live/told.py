"""The stalls of one process that are reported: each once while it goes on, again whenever it has grown, and at its end."""

from collections.abc import Iterator, Mapping
from typing import Final, final

__all__ = ["Told"]

_GROWTH: Final = 10
"""A stall that goes on is reported again when it is so many times as long: its main cause may be another one by then."""
_ENOUGH: Final = 9
"""The growth that suffices when it is looked at: a recording ends a moment before the look."""
_MOST: Final = 4096
_REPORTS: Final = 4
"""A recording may show stalls of so many reports before it. Many threads may have waited for one hold of the GIL."""


@final
class Told:
    """The reported stalls, each by its thread's serial and its begin."""

    def __init__(self, lengths_ns: Mapping[str, int] | None = None, parts: Mapping[str, str] | None = None) -> None:
        """Take what `lengths_ns` and `parts` were in another process."""
        self.lengths_ns = dict(lengths_ns or {})
        """The length of each stall at its report, by "serial:since_ns"; 0: the stall was over."""
        self.parts = dict(parts or {})
        """The parts of each stall that goes on, as they were reported: a text."""
        self.news: dict[str, int] = {}
        """The stalls that `add` has added."""

    def is_known(self, serial: int, since_ns: int) -> bool:
        """Tell whether a stall is reported."""
        return f"{serial}:{since_ns}" in self.lengths_ns

    def add(self, serial: int, since_ns: int, length_ns: int, *, goes_on: bool) -> bool:
        """Note a stall that is seen; return whether it is to be reported."""
        key = f"{serial}:{since_ns}"
        before_ns = self.lengths_ns.get(key)
        if before_ns == 0 or (before_ns is not None and goes_on and length_ns < _ENOUGH * before_ns):
            return False
        self.lengths_ns[key] = self.news[key] = max(1, length_ns) if goes_on else 0
        return True

    def keep(self, serial: int, since_ns: int, parts: str) -> None:
        """Keep the parts of a stall that goes on, as they are reported."""
        self.parts[f"{serial}:{since_ns}"] = parts

    def update(self, news: Mapping[str, int], parts: Mapping[str, str] | None = None) -> None:
        """Take what another process has reported; of very many stalls that are over, the oldest are forgotten."""
        for key, length_ns in news.items():
            self.lengths_ns.pop(key, None)
            self.lengths_ns[key] = length_ns
        excess = len(self.lengths_ns) - max(_MOST, _REPORTS * len(news))
        if excess > 0:
            # One that goes on for ever, because the ring has lost its end, is forgotten only after all that are over.
            for key in sorted(self.lengths_ns, key=lambda one: self.lengths_ns[one] > 0)[:excess]:
                del self.lengths_ns[key]
        known = self.parts | dict(parts or {})
        self.parts = {key: one for key, one in known.items() if self.lengths_ns.get(key)}

    @property
    def has_unended(self) -> bool:
        """Whether a stall was not over at its last report."""
        return any(self.lengths_ns.values())

    @property
    def unended(self) -> frozenset[tuple[int, int]]:
        """The stalls that were not over at their last reports: the serial of the thread, and the begin."""
        return frozenset((serial, since_ns) for serial, since_ns, _ in self._unended())

    @property
    def unended_parts(self) -> dict[tuple[int, int], str]:
        """The kept parts of these stalls."""
        keys = ((serial, since_ns) for serial, since_ns, _ in self._unended())
        return {key: self.parts[f"{key[0]}:{key[1]}"] for key in keys if f"{key[0]}:{key[1]}" in self.parts}

    @property
    def oldest_ns(self) -> int:
        """The begin of the oldest stall that goes on; 0: there is none."""
        return min((since_ns for _, since_ns, _ in self._unended()), default=0)

    def grown_ns(self, now_ns: int) -> int:
        """Return when one of the stalls that go on will have grown so much that it is to be reported again; 0: none."""
        dues = (since_ns + _GROWTH * length_ns for _, since_ns, length_ns in self._unended())
        return min((due for due in dues if due > now_ns), default=0)

    def _unended(self) -> Iterator[tuple[int, int, int]]:
        """Yield the thread's serial, the begin and the length of each stall that goes on."""
        for key, length_ns in self.lengths_ns.items():
            if length_ns:
                serial, _, since_ns = key.partition(":")
                yield int(serial), int(since_ns), length_ns
