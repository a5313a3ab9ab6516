"""Finds the part of a variant's coordinates that names a parameter: `64 KiB` of `threads, 64 KiB, disk` for the size."""

from collections.abc import Iterable

from headway.lab.design import Variant

__all__ = ["number_of", "without"]


def number_of(variant: Variant, name: str) -> float | None:
    """Return the value of a parameter; None if the variant lacks it, or if it is no number."""
    value = variant.params.get(name) if name else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def without(variants: Iterable[Variant], name: str) -> dict[str, tuple[str, ...]]:
    """Return, by label, the coordinates without the one part that names the parameter.

    That part is the one in which the label differs from a label with another value that is otherwise the same. A label
    without such a counterpart stays whole: it is a point by itself.
    """
    chosen = {one.label: one for one in variants}
    values = {label: number_of(one, name) for label, one in chosen.items()}
    found = {}
    for label, one in chosen.items():
        mine = one.coordinates
        differing = {
            places[0]
            for other, theirs in ((other, two.coordinates) for other, two in chosen.items())
            if values[other] != values[label] and len(theirs) == len(mine)
            if len(places := [place for place, part in enumerate(mine) if theirs[place] != part]) == 1
        }
        is_named = len(differing) == 1
        found[label] = tuple(part for place, part in enumerate(mine) if not (is_named and place in differing))
    return found
