"""Measure which concurrency model is best for a function, and say why.

The models are serial execution, threads, processes, asyncio, sub-interpreters
and a free-threaded build.

FUNCTION is module:function, file.py:function, or a file with one function.
Headway calls it with your inputs, in fresh processes and in this folder, and
imports none of your code into its own process. The answer comes first, then the
measurements, the reasons, code to paste, and a test that guards the result.
The results store keeps every launch; `headway report` shows the run.

Inputs come from one of three options:
  --inputs   names a list, a generator, or a function that returns one. A tuple
             holds the arguments of one call, functools.partial(FUNCTION, ...)
             also those by name; any other element is the argument. So an
             argument that is a tuple itself stands in another one: ((a, b),).
             Arguments that a call uses up, such as generators, need a function
  --args     gives the arguments of one call as JSON: a list, or an object for
             arguments by name
  --observe  runs a command, such as your tests, and records the arguments with
             which the command calls the function
A function without parameters needs no inputs.

Examples:
  headway advise app:resize --inputs app:examples
  headway advise resize.py:resize --args '["cat.png", 0.5]'
  headway advise resize.py:resize --args '{"path": "cat.png", "scale": 0.5}'
  headway advise app:resize --observe "pytest tests/test_resize.py"
  headway advise app:fetch --args '["http://localhost:8000/"]' --workers 16
"""

import argparse
from typing import TYPE_CHECKING

from headway.cli import console, options
from headway.cli.html_output import add_html, check_html
from headway.errors import UsageError

if TYPE_CHECKING:
    from headway.advice.target import Target

__all__ = ["prepare", "run"]


def prepare(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "function", metavar="FUNCTION", help="module:function, file.py:function, or a file with one function"
    )
    inputs = parser.add_mutually_exclusive_group()
    inputs.add_argument("--inputs", metavar="MODULE:NAME", help="a list, a generator, or a function that returns one")
    inputs.add_argument(
        "--args", metavar="JSON", help="the arguments of one call: a JSON list, or a JSON object for arguments by name"
    )
    inputs.add_argument("--observe", metavar="COMMAND", help="run this command and record the arguments of its calls")
    parser.add_argument(
        "--python",
        metavar="INTERPRETER",
        default="",
        help="your own Python: `python3.13`, a path, or a name of `headway interpreters` (default: that of the active virtual environment, else the one that runs Headway)",
    )
    parser.add_argument(
        "--interpreter",
        metavar="NAMES",
        help="also try these interpreters, named as in `headway interpreters`, or none (default: the newest free-threaded build)",
    )
    parser.add_argument(
        "--install",
        action="store_true",
        help="install the function's imports for the other interpreters, into Headway's cache",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=options.whole(1, 1024),
        help="number of workers (default: depends on the number of cores, and on a CPU quota)",
    )
    parser.add_argument(
        "--budget",
        metavar="TIME",
        type=options.seconds(5.0),
        help="approximate total time (`90s`, `10m`; default: a minute, or three minutes for a slow function); a first look at"
        " the function and one launch of each model are made in any case",
    )
    parser.add_argument("--seed", metavar="N", type=options.whole(0, 2**63), help="seed for the order of launches")
    options.add_store(parser)
    options.add_json(parser)
    add_html(parser)
    parser.add_argument("--force", action="store_true", help="replace FILE if it is there")


def run(arguments: argparse.Namespace) -> int:
    """Measure the models, and print the advice."""
    check_html(arguments)
    from headway.advice.course import advise, check_ready
    from headway.advice.elsewhere import chosen
    from headway.advice.observing import observed
    from headway.advice.request import AdviceRequest, own_interpreter
    from headway.advice.target import parse_target

    wanted = None
    if arguments.interpreter is not None:
        names = [one.strip() for one in arguments.interpreter.split(",") if one.strip()]
        wanted = [] if names == ["none"] else names
    if arguments.observe:
        # The command may take long, so what would be in the way after it is told before it.
        chosen(own_interpreter(arguments.python), wanted)
        check_ready(arguments.store)
    with observed(parse_target(arguments.function), arguments.observe or "", arguments.python, console.say) as target:
        advice = advise(
            AdviceRequest(
                target=_with_inputs(target, arguments),
                interpreters=wanted,
                python=arguments.python,
                workers=arguments.workers,
                budget_s=arguments.budget,
                store=arguments.store,
                seed=arguments.seed,
                install=arguments.install,
            ),
            say=console.say,
        )
    if arguments.html is not None:
        from headway import lab
        from headway.cli.html_output import write_run_page

        write_run_page(lab.load_run(advice.run, store=arguments.store), arguments.html, show=arguments.open)
    if arguments.json:
        console.print_json(advice.to_json())
        return 0
    from headway.cli.advise_view import render_advice, to_paste

    console.print_rendered(render_advice(advice, options.store_given(arguments)))
    console.print_plain(to_paste(advice))
    return 0


def _with_inputs(target: "Target", arguments: argparse.Namespace) -> "Target":
    from headway.advice.target import with_inputs, with_json

    if arguments.inputs is not None:
        return with_inputs(target, arguments.inputs)
    if arguments.args is not None:
        return with_json(target, arguments.args)
    if arguments.observe == "":
        raise UsageError("`--observe` has an empty command", hint='name one, such as --observe "pytest tests"')
    return target
