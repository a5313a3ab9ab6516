"""Tells whether two results of a user's function may be the same: floats may differ a little, NaN is the same as NaN."""

import math
import pickle
import sys

__all__ = ["may_be_same"]

_TOLERANCE = 1e-6
"""Floats may differ by this share: a library may add in another order while it has fewer cores."""
_ROUNDINGS = 64
"""Floats of fewer bits may differ by this many of their own roundings, if that is more."""
_MOST_DEEP = 5


def may_be_same(one, other):
    """Tell whether two results may be the same; values that cannot be compared may be."""
    try:
        return _alike(one, other, 0)
    except Exception:
        return True


def _alike(one, other, deep):
    if one is other:
        return True
    numpy = sys.modules.get("numpy")
    tolerance = _tolerance(one, other, numpy)
    if tolerance is not None:
        return _close(complex(one), complex(other), tolerance)
    if type(one) is type(other) and deep < _MOST_DEEP:
        if isinstance(one, (list, tuple)):
            return _all_alike(one, other, deep)
        if isinstance(one, dict):
            return one.keys() == other.keys() and all(_alike(one[key], other[key], deep + 1) for key in one)
        if type(one) is getattr(numpy, "ndarray", None):
            return _arrays_alike(one, other, deep, numpy)
        fields = getattr(type(one), "__dataclass_fields__", None)
        if fields is not None:
            return _dataclasses_alike(one, other, deep, fields)
    return _objects_alike(one, other, deep)


def _all_alike(some, others, deep):
    return len(some) == len(others) and all(_alike(*both, deep + 1) for both in zip(some, others))


def _tolerance(one, other, numpy):
    """Return the share by which two floats, or complex numbers, may differ; None if they are none."""
    kinds = float, complex
    if numpy is not None and hasattr(numpy, "inexact"):
        kinds = float, complex, numpy.inexact
    if not (isinstance(one, kinds) and isinstance(other, kinds)):
        return None
    return max(_of_bits(type(each), numpy) for each in (one, other))


def _of_bits(kind, numpy):
    """Return the share by which floats of this type of Python's, or of NumPy's, may differ."""
    return _TOLERANCE if kind in (float, complex) else max(_TOLERANCE, _ROUNDINGS * float(numpy.finfo(kind).eps))


def _close(one, other, tolerance):
    """Tell whether two complex numbers differ by no more than a share of their size."""
    parts = (one.real, other.real), (one.imag, other.imag)
    if one == other:
        return True
    sizes = [abs(part) for both in parts for part in both]
    if not all(map(math.isfinite, sizes)):
        return all(part == another or (part != part and another != another) for part, another in parts)
    return all(math.isclose(*both, rel_tol=tolerance, abs_tol=tolerance * max(sizes)) for both in parts)


def _arrays_alike(one, other, deep, numpy):
    """Tell whether two arrays of NumPy's may be the same; their floats may differ by a share of the largest one."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if one.dtype.kind == "O":
        return _all_alike(one.ravel().tolist(), other.ravel().tolist(), deep)
    if one.dtype.kind not in "fc":
        # NaT differs from itself, and so does NaN in a record.
        return bool(numpy.array_equal(one, other)) or one.tobytes() == other.tobytes()
    tolerance = _of_bits(one.dtype.type, numpy)
    finite = numpy.abs(one[numpy.isfinite(one)])
    size = float(finite.max()) if finite.size else 0.0
    return bool(numpy.allclose(one, other, rtol=tolerance, atol=tolerance * size, equal_nan=True))


def _equal(one, other):
    # Tables and columns (of pandas, polars, pyarrow) have no single truth by `==`.
    equals = getattr(one, "equals", None)
    is_table = type(one) is type(other) and not isinstance(one, type) and callable(equals)
    return bool(equals(other) if is_table else one == other)


def _dataclasses_alike(one, other, deep, fields):
    try:
        if _equal(one, other):
            return True
    except Exception:
        pass  # an array in a field gives no single bool
    names = [name for name, field in fields.items() if field.compare]
    return _all_alike(*[[getattr(each, name, None) for name in names] for each in (one, other)], deep)


def _objects_alike(one, other, deep):
    try:
        if _equal(one, other):
            return True
    except Exception:
        return True  # the comparison gives no single bool
    # Objects without a value of their own are equal only to themselves; what a pickle has of them tells their attributes.
    if type(one) is type(other) and deep < _MOST_DEEP and type(one).__module__ != "builtins":
        parts, others = _parts_of(one), _parts_of(other)
        if parts is not None and others is not None and _all_alike(parts, others, deep):
            return True
    pickled = _pickled(one)
    return pickled is None or _pickled(other) in (None, pickled)


def _parts_of(value):
    """Return what a pickle has of an object: how it is made, its attributes, and its items; None if that is not known."""
    try:
        reduced = value.__reduce_ex__(2)
        return [*reduced[:3], *(items and list(items) for items in reduced[3:5])] if type(reduced) is tuple else None
    except Exception:
        return None


def _pickled(value):
    try:
        # Once more, as the first pickle tells which parts of the value were the same object.
        return pickle.dumps(pickle.loads(pickle.dumps(value)))
    except Exception:
        return None
