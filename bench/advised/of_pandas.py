"""Functions of pandas for bench/advise_corpus.py."""

import io

import numpy as np
import pandas as pd

_FRAME = pd.DataFrame({"key": np.arange(200_000) % 997, "value": np.sin(np.arange(200_000))})
_CSV = _FRAME.head(20_000).to_csv(index=False)


def group():
    return float(_FRAME.groupby("key")["value"].mean().iloc[3])


def read_csv():
    return len(pd.read_csv(io.StringIO(_CSV)))
