"""Headway in a Dask cluster: how workers use their GILs, recordings of any worker, policies.

    client.register_plugin(HeadwayWorker())
    client.register_plugin(HeadwayWorker(policy="fair"))

`headway dask SCHEDULER` shows all workers. Headway must be installed where the workers are. Needs `distributed`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headway.dask.worker import HeadwayWorker as HeadwayWorker

__all__ = ["HeadwayWorker"]


def __getattr__(name: str) -> object:
    if name == "HeadwayWorker":  # imported late: the import of distributed takes a second
        from headway.dask.worker import HeadwayWorker

        return HeadwayWorker
    raise AttributeError(f"module 'headway.dask' has no attribute {name!r}")
