"""The options `--html` and `--open`: write the page of a run, a trace or a simulation as one file, and open it."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headway import __version__
from headway.cli import console
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.lab import Run
    from headway.report.html.schema import Page
    from headway.report.lab.comparison import Compared
    from headway.traces.analysis import Analysis
    from headway.traces.model import Trace

__all__ = ["add_html", "check_html", "page_folder", "write_run_page", "write_simulation_page", "write_trace_page"]


def add_html(parser: argparse.ArgumentParser, *, default: str = "") -> None:
    """Add `--html FILE` and `--open`; `default` describes where a page goes without FILE, and is "" if there is none."""
    also = f" (default: {default})" if default else ""
    text = f"write the report as one self-contained HTML file{also}"
    parser.add_argument("--html", type=Path, metavar="FILE", help=text)
    parser.add_argument("--open", action="store_true", help="open the HTML file in the browser")
    parser.set_defaults(html_default=default)


def check_html(
    arguments: argparse.Namespace,
    others: Mapping[str, Path | None] | None = None,
    inputs: Mapping[str, Path | str | None] | None = None,
) -> None:
    """Check, before any work, that the page can be written, and the files of other options.

    Args:
        arguments: The arguments of the command.
        others: The file of each other option that writes one.
        inputs: Files that the command reads, each with words for it; the results store is one of them by itself.

    Raises:
        UsageError: A file cannot be written (see `console.check_outputs`), or `--open` is given and no page is written.
    """
    if arguments.open and arguments.html is None and not arguments.html_default:
        raise UsageError("`--open` opens the page that `--html` writes", hint="add `--html FILE`")
    console.check_outputs(
        {"--html": arguments.html, **(others or {})},
        force=arguments.force,
        inputs={"the results store": getattr(arguments, "store", None), **(inputs or {})},
    )


def page_folder(store: Path) -> Path:
    """Return the folder for the pages of the lab's runs: `reports`, beside the store."""
    return store.parent / "reports"


def write_run_page(
    run: "Run",
    path: Path,
    *,
    show: bool,
    compared: "Compared | None" = None,
) -> None:
    """Write the page of a run, or of a run compared with an earlier one.

    Args:
        run: The run.
        path: The file.
        show: Whether to open the page in the browser.
        compared: The comparison with the earlier run, if there is one.

    Raises:
        HeadwayError: The file cannot be written.
    """
    from headway.report.html import lab_page, render_page

    _write(path, render_page(lab_page(run, compared)), show=show)


def write_trace_page(
    launches: "Sequence[tuple[str, Sequence[tuple[Trace, Analysis]]]]", path: Path, *, show: bool
) -> None:
    """Write the page of one trace, or of several traces side by side.

    Args:
        launches: The name of each trace, and its processes.
        path: The file.
        show: Whether to open the page in the browser.

    Raises:
        HeadwayError: The file cannot be written.
    """
    from headway.report.html import render_page, trace_page

    names = [name for name, _ in launches]
    if len(launches) == 1:
        names = [""]
    elif len(set(names)) < len(names):
        names = [f"{name} ({place})" for place, name in enumerate(names, 1)]
    processes = [one for _, one in launches]
    _write(path, render_page(*trace_page(list(zip(names, processes, strict=True)), __version__)), show=show)


def write_simulation_page(page: "tuple[Page, dict[str, bytes]]", path: Path, *, show: bool) -> None:
    """Write the page of a simulation.

    Args:
        page: The page's data, and its blocks.
        path: The file.
        show: Whether to open the page in the browser.

    Raises:
        HeadwayError: The file cannot be written.
    """
    from headway.report.html import render_page

    _write(path, render_page(*page), show=show)


def _write(path: Path, text: str, *, show: bool) -> None:
    console.write_text(path, text)
    if not show:
        return
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        console.say(f"no browser could be started here; open {path.resolve()} in yours")
