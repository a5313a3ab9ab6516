"""List the stored runs, or delete some of them.

The HTML page that the lab wrote of a run, in the folder `reports` beside the
store, is deleted together with the run.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from headway import lab
from headway.cli import console
from headway.cli.html_output import page_folder
from headway.cli.options import add_json, add_store, count, store_given
from headway.errors import HeadwayError

__all__ = ["prepare", "run"]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `headway runs`."""
    add_store(parser)
    add_json(parser)
    fewer = parser.add_mutually_exclusive_group()
    fewer.add_argument(
        "--delete",
        nargs="+",
        metavar="RUN",
        help="delete these runs for good: an id, the beginning of an id, `last`, or `last~N`",
    )
    fewer.add_argument("--keep", type=count, metavar="N", help="delete all runs except the newest N for good")


def run(arguments: argparse.Namespace) -> int:
    """List the stored runs. A store that is empty or missing is not an error: there are no runs yet."""
    path = arguments.store or lab.default_store()
    if arguments.delete or arguments.keep:
        _delete(path, arguments.delete, arguments.keep)
    runs: list[lab.RunHeader] = []
    if arguments.store is not None or path.exists():
        with lab.Store(path) as store:
            runs = store.runs()
            for one in store.unreadable():
                console.say(
                    f"run {one.id} is left out, as it cannot be read: {one.why};"
                    f" `headway runs --delete {one.id}{store_given(arguments)}` deletes it"
                )
    if arguments.json:
        console.print_json([_to_json(run) for run in runs])
        return 0
    if not runs:
        console.say("no runs yet; `headway lab` makes one")
        return 0
    from headway.report import Table, render_table

    rows = [
        (
            run.id,
            run.settings.size,
            _launches(run) + (f", {run.failed} failed" if run.failed else ""),
            "" if run.complete else "incomplete",
            ", ".join(run.settings.experiments)
            if len(run.settings.experiments) < 4
            else f"{len(run.settings.experiments)} experiments",
            ", ".join(run.settings.names.values()),
        )
        for run in runs
    ]
    columns = ("run", "size", "launches", "", "experiments", "CPython")
    console.print_rendered(render_table(Table(f"in {path}", columns, tuple(rows))))
    return 0


def _delete(path: Path, names: list[str] | None, keep: int | None) -> None:
    """Delete the runs with these names, or all but the newest. A lab that measures must have ended: it may own one."""
    with lab.only_lab("the runs may be its own"), lab.Store(path, write=True) as store:
        chosen = [store.find_id(name) for name in names] if names else [one.id for one in store.runs()[: -(keep or 0)]]
        ids = list(dict.fromkeys(chosen))
        # First: a run whose page is gone can have another one, but nothing names the page of a run that is gone.
        pages = sum(_deleted(page_folder(path) / f"{one}.html") for one in ids if "/" not in one)
        freed_bytes = store.delete_runs(ids)
    from headway.report.figures import amount
    from headway.traces.analysis.words import number

    and_pages = f" and {number(pages, 'page')} in {page_folder(path)}" if pages else ""
    freed = amount(max(0, freed_bytes), "bytes")
    console.say(f"deleted {number(len(ids), 'run')}{and_pages}; the store is {freed} smaller")


def _deleted(page: Path) -> bool:
    """Delete the page of a run; return whether there was one."""
    try:
        page.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise HeadwayError(
            f"the page {page} cannot be deleted: {error.strerror}",
            hint="no run is deleted yet; make the folder writable",
        ) from error
    return True


def _launches(run: lab.RunHeader) -> str:
    """Return the launches done and planned, as `40/60`; for a run with a budget, only the launches done."""
    return str(run.done) if run.planned is None else f"{run.done}/{run.planned}"


def _to_json(run: lab.RunHeader) -> dict[str, Any]:
    return {**asdict(run), "settings": run.settings.to_json(), "complete": run.complete}
