"""Functions of NumPy for bench/advise_corpus.py."""

import numpy as np

_SQUARE = np.arange(160_000, dtype=float).reshape(400, 400) / 160_000
_LINE = np.sin(np.arange(1 << 18))


def matmul():
    return float((_SQUARE @ _SQUARE)[1, 1])


def fft():
    return float(abs(np.fft.fft(_LINE)[3]))


def sort():
    return float(np.sort(_LINE)[5])


def small_arrays():
    total = 0.0
    for place in range(2000):
        total += float((np.ones(8) * place).sum())
    return total


def svd():
    return float(np.linalg.svd(_SQUARE[:120, :120])[1][0])
