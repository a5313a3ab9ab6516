"""Run experiments on this machine's interpreters and say which claims hold.

Every launch is a fresh process. The blocks are shuffled, and each launch is
stored before the next one starts. `--resume` continues an interrupted run.
"""

import argparse
import contextlib
import functools
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator

from headway import lab
from headway.cli import console
from headway.cli.html_output import add_html, check_html, page_folder, write_run_page
from headway.cli.lab_progress import SIGNALLED, ProgressLine, interruptible
from headway.cli.options import add_json, add_store, seconds, store_given, whole
from headway.errors import HeadwayError, UsageError
from headway.host.paths import default_store
from headway.lab.design import PLACEMENTS, SIZES, Errors, Experiment, Order
from headway.lab.plan import DEFAULT_LAUNCHES

__all__ = ["prepare", "run"]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `headway lab`."""
    parser.add_argument("experiments", metavar="EXPERIMENT", nargs="*", help="experiments to run (default: all)")
    sizes = parser.add_mutually_exclusive_group()
    for size in SIZES:
        text = {
            "quick": "a first look (the default): launches of seconds, repeated where claims are open, for 10 minutes",
            "standard": "reliable figures: five launches of each cell, in minutes",
            "published": "the parameters of the published experiments, five launches of each cell",
        }[size]
        sizes.add_argument(f"--{size}", dest="size", action="store_const", const=size, help=text)
    parser.add_argument(
        "--interpreter",
        dest="interpreters",
        action="append",
        default=[],
        metavar="NAME",
        help="3.13, 3.13t, 3.11.7, a path, or `all`; may be repeated or separated by commas "
        "(default: the newest patch of every version and build found)",
    )
    parser.add_argument(
        "--model",
        dest="models",
        action="append",
        default=[],
        metavar="NAME",
        help="run only this model (threads, processes, processes-spawn, asyncio, ...) and the baseline",
    )
    parser.add_argument("--placement", choices=PLACEMENTS, help="run only this placement of the parts on cores")
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument(
        "--budget",
        type=seconds(above=True),
        metavar="TIME",
        help="time for all launches (`90s`, `10m`, `1h`): three launches of each cell that a claim is about, then more for open "
        "claims, until each is decided or expected to need more than 100 launches, or more time than is left; an experiment "
        "that has begun gets its first launches also when the time is up (default: 10m at quick size for all experiments, less "
        "for fewer)",
    )
    amount.add_argument("--launches", type=int, metavar="N", help="fixed number of launches of each cell")
    parser.add_argument(
        "--limit",
        type=float,
        metavar="SECONDS",
        help="kill a launch that takes longer; if several cells share a launch, the limit is for each cell",
    )
    parser.add_argument(
        "--memory-limit",
        type=whole(1, 1 << 40),
        metavar="MIB",
        help="limit of the address space of each process of a launch",
    )
    parser.add_argument(
        "--redis-url",
        default="",
        metavar="URL",
        help="your own Redis or Valkey for redis-set (default: REDIS_URL, which other users cannot read, else a server that the "
        "lab starts); the lab never flushes it, and touches only keys that begin with `headway-lab:`",
    )
    parser.add_argument("--seed", type=int, help="seed for the order of launches (default: random)")
    parser.add_argument("--resume", metavar="RUN", help="complete an interrupted run: an id, or `last`")
    parser.add_argument(
        "--provide",
        metavar="COMMAND",
        help="run COMMAND after the first look at the first experiment that can run, for example to build an interpreter; "
        "measurements pause meanwhile, and the lab then searches for interpreters again; if one that `--interpreter` names is "
        "missing, or one that can run a model of `--model`, COMMAND runs before all launches",
    )
    parser.add_argument(
        "--dask",
        metavar="SCHEDULER",
        help="measure on each machine of a Dask cluster, such as tcp://127.0.0.1:8786, and count the machines on which each claim "
        "holds; with --resume, the name of such a run",
    )
    parser.add_argument(
        "--in-turns",
        action="store_true",
        help="with --dask: measure one machine at a time, for machines that share cores (virtual machines of one host)",
    )
    parser.add_argument("--list", action="store_true", help="list the experiments and stop")
    parser.add_argument(
        "--explain", metavar="EXPERIMENT", help="explain an experiment (question, method, models and claims) and stop"
    )
    parser.add_argument("--full", action="store_true", help="print the full report at the end instead of the short one")
    add_html(parser, default="beside the store")
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")
    add_store(parser)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the lab, list or explain experiments; return 1 if launches failed.

    Return 128 plus the signal's number if a signal stopped the run early: 130 after Ctrl-C, or if the reader is gone.
    """
    modes = [f"`--{name}`" for name in ("list", "explain", "resume") if getattr(arguments, name) not in (None, False)]
    if len(modes) > 1:
        raise UsageError(f"{' and '.join(modes)} exclude each other", hint="use one at a time")
    if arguments.experiments and modes:
        raise UsageError(
            f"{modes[0]} cannot be combined with names of experiments",
            hint="leave out " + " ".join(arguments.experiments),
        )
    if arguments.list:
        return _list(arguments)
    if arguments.explain is not None:
        return _explain(lab.experiment(arguments.explain), as_json=arguments.json)
    check_html(arguments)
    if arguments.in_turns and arguments.dask is None:
        raise UsageError(
            "`--in-turns` is for the machines of a cluster, and none is given", hint="name its scheduler with `--dask`"
        )
    if arguments.dask is not None:
        from headway.cli.lab_on_cluster import measure

        if arguments.resume is not None:
            _refuse_with_resume(arguments)
        return measure(arguments, None if arguments.resume is not None else _request(arguments), store_given(arguments))
    shown = ProgressLine(brief=not arguments.json and not arguments.full)
    results = _measure(arguments, shown)
    complete = results.header.complete
    if not complete:
        shown.print_unfinished(results)
    where = [
        f"headway report {results.id}{store_given(arguments)}: everything, with tables and intervals (`--full` here)"
    ]
    if complete:
        where += _page(arguments, results)
    if arguments.json:
        from headway.report import run_to_json

        console.print_json(run_to_json(results))
    elif arguments.full:
        from headway.report import render_run

        console.print_rendered(render_run(results))
    else:
        from headway.report import render_end

        console.print_rendered(render_end(results, where))
    if results.failures:
        from headway.traces.analysis.words import number

        failed = number(len(results.failures), "launch", "launches")
        console.say(f"{failed} failed; `headway report {results.id}{store_given(arguments)}` shows the causes")
    if not complete:
        if arguments.html is not None:
            console.say(f"{arguments.html} was not written, because the run is not complete")
        url = " --redis-url URL" if results.settings.redis.get("url") else ""
        console.say(
            f"stopped early; `headway lab --resume {results.id}{store_given(arguments)}{url}` completes the run"
        )
        return SIGNALLED + shown.stopped_by
    return 1 if results.failures else 0


def _page(arguments: argparse.Namespace, results: lab.Run) -> Iterator[str]:
    """Write the run's page to `--html`, or beside the store; yield a line that names the file."""
    path = arguments.html or page_folder(arguments.store or default_store()) / f"{results.id}.html"
    try:
        if arguments.html is None:
            path.parent.mkdir(parents=True, exist_ok=True)
        write_run_page(results, path, show=arguments.open)
    except (OSError, HeadwayError) as error:
        if arguments.html is not None:
            raise
        console.say(f"the HTML page could not be written: {error}")
    else:
        yield f"{path}: the same report as an HTML page, with plots"


def _split(option: str, names: list[str]) -> list[str]:
    parts = [part.strip() for name in names for part in name.split(",")]
    if "" in parts:
        raise UsageError(f"`{option}` has an empty name in `{','.join(names)}`", hint="leave the option out for all")
    return parts


def _request(arguments: argparse.Namespace) -> lab.Request:
    mib = arguments.memory_limit
    return lab.Request(
        experiments=arguments.experiments,
        size=arguments.size or "quick",
        interpreters=_split("--interpreter", arguments.interpreters),
        models=_split("--model", arguments.models),
        placement=arguments.placement,
        launches=arguments.launches,
        budget_s=arguments.budget,
        seed=arguments.seed,
        limit_s=arguments.limit,
        memory_limit_bytes=None if mib is None else mib * 2**20,
        store=arguments.store,
        redis_url=arguments.redis_url,
    )


_WITH_RESUME = (
    "experiments",
    "size",
    "interpreters",
    "models",
    "placement",
    "launches",
    "budget",
    "provide",
    "limit",
    "memory_limit",
    "seed",
)


def _refuse_with_resume(arguments: argparse.Namespace) -> None:
    """Raise UsageError if an option is given that would change the settings of the run to resume."""
    given = [name for name in _WITH_RESUME if getattr(arguments, name) not in (None, [])]
    if given:
        raise UsageError(
            f"`--resume` continues with the run's own settings, and {', '.join(given)} would change them",
            hint="leave them out, or start a new run without `--resume`",
        )


def _measure(arguments: argparse.Namespace, shown: ProgressLine) -> lab.Run:
    """Run or resume the lab and return the run. Raises HeadwayError.

    After Ctrl-C, or if the reader of the output is gone, return the part that is stored.
    """
    if arguments.resume is not None:
        _refuse_with_resume(arguments)
    provide = None if arguments.provide is None else functools.partial(_provide, _words_of(arguments.provide))
    try:
        with interruptible(shown) as report:
            if arguments.resume is not None:
                return lab.resume(
                    arguments.resume,
                    store_path=arguments.store,
                    redis_url=arguments.redis_url,
                    report=report,
                    say=console.say,
                )
            return lab.run(_request(arguments), report=report, say=console.say, provide=provide)
    except (KeyboardInterrupt, BrokenPipeError) as error:
        shown.end()
        if shown.run is None:
            if shown.stopped_by != signal.SIGINT:
                console.say("stopped")
                sys.exit(SIGNALLED + shown.stopped_by)
            raise
        if isinstance(error, BrokenPipeError):
            console.discard_output()
            console.say("the reader of the output is gone")
        return lab.load_run(shown.run, store=arguments.store)
    except (HeadwayError, OSError):
        shown.end()
        _say_how_to_go_on(arguments, shown.run)
        raise
    finally:
        shown.end()


def _say_how_to_go_on(arguments: argparse.Namespace, run: str | None) -> None:
    """Name the command that completes a run which an error has ended, as a full disk, if the store has the run."""
    with contextlib.suppress(HeadwayError, OSError):
        if run is not None and not lab.load_run(run, store=arguments.store).header.complete:
            console.say(
                f"the launches so far are stored; `headway lab --resume {run}{store_given(arguments)}` completes the run"
            )


def _words_of(command: str) -> list[str]:
    """Return the words of the command of `--provide`. Raises UsageError if there are none."""
    hint = "give a command as to a shell, such as `--provide 'make interpreters'`"
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UsageError(f"`--provide` cannot be split into words: {error} in `{command}`", hint=hint) from None
    if not words:
        raise UsageError("`--provide` names no command", hint=hint)
    return words


def _provide(words: list[str]) -> None:
    """Run the command of `--provide`, with its output on stderr. If it fails, the lab goes on without its result."""
    console.say(f"running `{shlex.join(words)}`; measurements pause until it ends")
    try:
        code = subprocess.run(words, check=False, stdin=subprocess.DEVNULL, stdout=2).returncode
    except (OSError, ValueError) as error:
        console.say(f"! the command could not be run: {error}")
    else:
        if code:
            console.say(
                f"! the command ended with exit code {code}; the run continues with the interpreters that are available"
            )


def _list(arguments: argparse.Namespace) -> int:
    experiments = lab.experiments()
    if arguments.json:
        console.print_json([_described(one) for one in experiments])
        return 0
    console.print_list((one.name, one.question) for one in experiments)
    return 0


def _described(one: Experiment) -> dict[str, object]:
    """Return an experiment as JSON.

    Fields:
        name, question, method: The experiment.
        in_the_figure: What its figure includes.
        metric: The metric, whose unit is in its name.
        sources: The publications that it is about.
        variants: By size of the lab: the variants with their `model`, `params` and `placements`.
        claims: The claims: `id`, `text`, `source` and `why`.
    """
    return {
        "name": one.name,
        "question": one.question,
        "method": one.method,
        "in_the_figure": one.included,
        "metric": one.metric,
        "sources": list(one.sources),
        "variants": {
            size: [
                {
                    "label": v.label,
                    "series": v.series,
                    "setting": ", ".join(v.setting),
                    "model": v.model,
                    "params": dict(v.params),
                    "placements": list(v.placements),
                    "native": v.native,
                }
                for v in one.variants(size)
            ]
            for size in SIZES
        },
        "claims": [
            {"id": claim.id, "text": claim.text, "source": claim.source, "why": claim.why} for claim in one.claims
        ],
    }


def _published(wanted: tuple[str, ...]) -> Iterator[str]:
    from headway.lab.published import results, sources

    for letter in sorted({source[0] for source in wanted}):
        yield f"  {letter}: {sources()[letter]}"
    for result in results():
        if result["source"] in wanted:
            yield f"  {result['source']}: {result['setting']} ({result['unit']})"
            for values in result.get("rows", [result.get("values", {})]):
                yield "      " + ", ".join(f"{name} {value}" for name, value in values.items())


def _explain(one: Experiment, *, as_json: bool) -> int:
    if as_json:
        console.print_json(_described(one))
        return 0
    print(f"{one.name}: {one.question}\n\nMethod: {one.method}\n\nIn the figure: {one.included}\n")
    print("Variants at quick size (model, placements; ratios refer to the first marked *):")
    for v in one.variants("quick"):
        mark = "*" if v.series == one.baseline else " "
        where = "in C, once per run" if v.native else v.model
        print(f" {mark} {v.label}: {where}, {' and '.join(v.placements)}")
    print(
        f"\nLaunches per cell: {', '.join(f'{count} {size}' for size, count in DEFAULT_LAUNCHES.items())}; more at quick size, "
        "and with any --budget, while a claim is open\n"
    )
    print("Claims:" if one.claims else "No claims: the question is open.")
    for claim in one.claims:
        where = {"gil": ", with a GIL", "free-threaded": ", without a GIL"}.get(claim.where, "")
        print(f"  {claim.text} [{claim.source}{where}]\n      because {claim.why}")
        for piece in claim.evidence(lab.this_machine()):
            if isinstance(piece, lab.Comparison):
                across = f" ({piece.top_interpreter} / {piece.bottom_interpreter})" if piece.top_interpreter else ""
                places = " / ".join(filter(None, (piece.placement, piece.bottom_placement)))
                details = "".join(f", {one}" for one in (places, piece.metric.replace("_", " ")) if one)
                print(f"      holds if {piece.top} / {piece.bottom}{across}{details} is {piece.relation}")
            elif isinstance(piece, lab.Level):
                print(f"      holds if {piece.metric} of {piece.label} is {piece.relation}")
            elif isinstance(piece, Errors):
                print(
                    f"      holds if predictions of {piece.metric} are off by a factor {piece.relation} at the median"
                )
            elif isinstance(piece, Order):
                print(
                    f"      holds if {piece.share:.0%} of the pairs that differ in {piece.metric} are predicted in their order"
                )
            else:
                taken = f" less {piece.less:g}" if piece.less else ""
                print(
                    f"      holds if {piece.metric}{taken} of {', '.join(piece.labels)} is {'0' if piece.expect == 'none' else 'more than 0'}"
                )
    if one.sources:
        print("\nPublished:")
        print("\n".join(_published(one.sources)))
    return 0
