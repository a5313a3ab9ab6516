"""Run the lab on the machines of a Dask cluster, for `headway lab --dask`."""

import argparse
import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from headway import lab
from headway.cli import console
from headway.cli.lab_progress import SIGNALLED, stoppable
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.dask.lab_run import ClusterRun

__all__ = ["measure"]


def measure(arguments: argparse.Namespace, request: lab.Request | None, store: str) -> int:
    """Measure on the machines of a Dask cluster.

    Args:
        arguments: The arguments of `headway lab`.
        request: The request for a new run, or None to continue the run of --resume.
        store: The option --store as the user gave it, with a blank before it; "" without the option.

    Returns:
        1 if launches failed, a run is not complete or a machine was lost, 128 and the number of the signal that stopped
        it, else 0.
    """
    for name in ("provide", "redis_url", "html", "open", "full"):
        if getattr(arguments, name):
            raise UsageError(
                f"--dask cannot be combined with --{name.replace('_', '-')}",
                hint="leave it out; `headway report RUN`, with or without --html, shows the run of one machine",
            )
    from headway.lab.judging.machines import over_machines
    from headway.report import machines_to_json, render_machines

    signals: list[int] = []
    try:
        with stoppable(signals.append) as stop_if_interrupted:
            done = _measured(arguments, request, _HostLines(stop_if_interrupted))
    except KeyboardInterrupt:
        console.say("stopped")
        return SIGNALLED + (signals[0] if signals else signal.SIGINT)
    claims = over_machines(done.runs)
    if arguments.json:
        console.print_json({"cluster": done.cluster, "lost": done.lost, **machines_to_json(done.runs, claims)})
    else:
        console.print_rendered(render_machines(done.runs, claims))
    unfinished = [run.settings.host for run in done.runs if not run.header.complete]
    if unfinished or done.lost:
        console.say(
            f"the run is not complete on {', '.join(sorted({*unfinished, *done.lost}))}; `headway lab --dask {arguments.dask} "
            f"--resume {done.cluster}{store}` continues it"
        )
    return 1 if unfinished or done.lost or any(run.failures for run in done.runs) else 0


def _measured(arguments: argparse.Namespace, request: lab.Request | None, shown: "_HostLines") -> "ClusterRun":
    """Carry out a new run, or the rest of one; each machine is free for others when this returns or raises."""
    from headway.dask.cluster import connected
    from headway.dask.lab_run import go_on, run_on

    with connected(arguments.dask) as cluster:
        if request is not None:
            return run_on(cluster, request, report=shown, say=console.say, in_turns=arguments.in_turns)
        return go_on(
            cluster,
            arguments.resume,
            store=arguments.store,
            report=shown,
            say=console.say,
            in_turns=arguments.in_turns,
        )


class _HostLines:
    """Progress on stderr: a line when a machine has finished an experiment or the run, and else one per minute."""

    _QUIET_S = 60.0

    def __init__(self, stop_if_interrupted: Callable[[], None]) -> None:
        self._stop_if_interrupted = stop_if_interrupted
        self._last_s: dict[str, float] = {}

    def __call__(self, host: str, progress: lab.Progress) -> None:
        if progress.cell is not None:
            self._stop_if_interrupted()
        now_s = time.monotonic()
        is_news = progress.finished or progress.cell is None
        if not is_news and now_s - self._last_s.setdefault(host, now_s) < self._QUIET_S:
            return
        self._last_s[host] = now_s
        what = f"{progress.finished} is complete" if progress.finished else "done" if progress.cell is None else ""
        failed = f", {progress.failed} failed" if progress.failed else ""
        console.say(f"{host}: run {progress.run}, {progress.done} launches{failed}{': ' if what else ''}{what}")
