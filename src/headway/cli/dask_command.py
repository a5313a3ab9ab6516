"""Watch the workers of a Dask cluster: event loops that wait for the GIL.

The workers need the plugin `headway.dask.HeadwayWorker`; --register installs it
on workers that do not have it. Shares are of the last interval, or of the time
between two heartbeats if that is longer. The column `longest hold by` names the
tasks that keep the GIL from a worker's event loop: a C call that keeps the GIL
for seconds delays the worker's heartbeats and data transfers.

--record WORKER fetches the last seconds of that worker as a trace, for
`headway report` and `headway stalls`.

Examples:
  headway dask tcp://127.0.0.1:8786 --register
  headway dask tcp://127.0.0.1:8786 --json --count 1
  headway dask tcp://127.0.0.1:8786 --record worker-3
"""

import argparse
import contextlib
import dataclasses
import itertools
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

from headway.cli import console, options
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.dask.cluster import Cluster
    from headway.dask.figures import WorkerFigures

__all__ = ["prepare", "run"]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument("scheduler", metavar="SCHEDULER", help="address of the scheduler, such as tcp://127.0.0.1:8786")
    parser.add_argument("--register", action="store_true", help="install the plugin on all workers")
    parser.add_argument(
        "--interval",
        metavar="SECONDS",
        type=options.seconds(0.05),
        default=2.0,
        help="interval between tables (default %(default)g)",
    )
    parser.add_argument("--count", metavar="N", type=options.count, help="stop after N tables")
    parser.add_argument("--json", action="store_true", help="print one line of JSON per interval")
    parser.add_argument("--record", metavar="WORKER", help="fetch a recording of this worker, by name or address")
    parser.add_argument("-o", "--output", metavar="FOLDER", type=Path, default=Path(), help="folder for recordings")


def run(arguments: argparse.Namespace) -> int:
    """Print a table for each interval, or fetch one recording."""
    from headway.dask.cluster import connected
    from headway.dask.figures import Looks

    if not arguments.output.is_dir():
        raise UsageError(f"there is no folder {arguments.output}", hint="make it, or name another one with -o")
    with connected(arguments.scheduler) as cluster:
        if arguments.register:
            cluster.register()
        if arguments.record:
            _fetch(cluster, arguments.record, arguments.output)
            return 0
        looks = Looks(cluster.workers())
        with contextlib.suppress(KeyboardInterrupt):
            for number in itertools.count(1):
                time.sleep(arguments.interval)
                _show(looks.look(cluster.workers()), as_json=arguments.json)
                if number == arguments.count:
                    break
    return 0


def _fetch(cluster: "Cluster", words: str, folder: Path) -> None:
    """Write a worker's recording into a folder, and print its path."""
    name, data = cluster.recording(cluster.find(words))
    path = folder / Path(name).name
    try:
        with path.open("xb") as file:
            file.write(data)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint="name another folder with -o") from error
    console.print_plain(str(path))


def _show(found: "list[WorkerFigures]", *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"workers": [dataclasses.asdict(one) for one in found]}, allow_nan=False), flush=True)
        return
    from headway.cli.dask_view import render_workers

    console.print_rendered(render_workers(found))
