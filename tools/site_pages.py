"""Make the reference pages from the code: command line, Python interface, JSON, metrics, trace file, policy header."""

import argparse
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from site_json import json_outputs

import headway
from headway import errors, lab
from headway.cli import parser
from headway.cli.main import EXIT_CODES
from headway.live import services
from headway.live.exposition import Totals, exposition
from headway.live.roles import RoleTotals

__all__ = ["PAGES"]

ROOT = Path(__file__).resolve().parents[1]
_STRUCT = re.compile(
    r"^(?:/\*(?P<words>(?:(?!\*/).)*)\*/\n)?struct hw__(?P<name>\w+) \{\n(?P<body>.*?)^\};", re.MULTILINE | re.DOTALL
)
_PART = re.compile(
    r"/\*(?P<words>.*?)\*/"  # a comment
    r"|^#define HW__(?P<number>\w+) (?P<value>\S+)"
    r"|(?P<kind>\b\w[\w ]*) (?P<field>\w+(?:\[\w+\])*);",
    re.MULTILINE | re.DOTALL,
)
"""What describes, and what it describes, in the order of the header."""
_OF_ONE_LINE = re.compile(r"[ \t]*")
_HEADING = re.compile(r"\w+\.\w+")
"""The whole of a comment such as `event.kind`, which says where the numbers below it occur."""


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _option(action: argparse.Action, formatter: argparse.HelpFormatter) -> str:
    """Return a command-line argument as a row of a table."""
    names = ", ".join(f"`{name}`" for name in action.option_strings)
    if not names or action.nargs != 0:
        value = str(action.metavar or "").strip() or (
            "{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper()
        )
        names = f"{names} `{value}`" if names else f"`{value}`"
    text = formatter._expand_help(action) if action.help and action.help != argparse.SUPPRESS else ""  # noqa: SLF001
    return f"| {_cell(names)} | {_cell(text)} |"


def command_line() -> Iterator[str]:
    """Yield the lines of the command-line page: each command with its help and its arguments."""
    yield "# Command line"
    yield ""
    yield "This page is made from the program's own `--help`."
    yield "stdout is data and stderr is talk; `NO_COLOR` is honoured."
    yield ""
    yield "## Exit codes"
    yield ""
    yield "`headway run`, `headway trace` and `headway watch` become the program, and end with its exit code."
    yield ""
    yield "| exit code | meaning |"
    yield "|---|---|"
    yield from (f"| {code} | {meaning} |" for code, meaning in EXIT_CODES.items())
    yield ""
    whole = parser()
    commands = next(one for one in whole._actions if isinstance(one, argparse._SubParsersAction))  # noqa: SLF001
    for name, command in commands.choices.items():
        yield f"## headway {name}"
        yield ""
        for paragraph in (command.description or "").split("\n\n"):
            # In the help, commands and listings keep their lines, while prose is wrapped.
            lines = paragraph.splitlines()
            yield "\n".join(f"    {line}" for line in lines) if _is_listing(lines) else paragraph
            yield ""
        yield "| argument | meaning |"
        yield "|---|---|"
        formatter = command._get_formatter()  # noqa: SLF001
        for action in command._actions:  # noqa: SLF001
            if action.help != argparse.SUPPRESS and action.dest != "help":
                yield _option(action, formatter)
        yield ""


def _is_listing(lines: list[str]) -> bool:
    return len(lines) > 1 and sum("  " in line.strip() or line.startswith("  ") for line in lines) * 2 >= len(lines)


_PARTS: Mapping[str, tuple[str, Sequence[str]]] = {
    "headway.dask": ("headway.dask.worker", ["HeadwayWorker"]),
    "headway.errors": ("headway.errors", errors.__all__),
    "headway.live.metrics": ("headway.live.metrics", ["GilCollector", "instrument"]),
    "headway.live.middleware": ("headway.live.middleware", ["GilASGIMiddleware", "GilWSGIMiddleware"]),
    "headway.live.otel_exporter": ("headway.live.otel_exporter", ["GilExporter"]),
    "headway.live.services": ("headway.live.services", services.__all__),
}
"""What a user's program or its server's settings may import besides: by module, the module with the code, and the names."""


def python() -> Iterator[str]:
    """Yield the lines of the page on the Python interface; mkdocstrings fills in signatures and docstrings."""
    yield "# Python"
    yield ""
    yield "This page is made from the docstrings of what `headway`, `headway.lab` and the modules below export."
    yield ""
    yield "## headway"
    yield ""
    places: Mapping[str, str] = headway._PLACES  # noqa: SLF001
    for name in sorted(places, key=str.lower):
        yield from _member(f"headway.{places[name]}", name)
    yield "## headway.lab"
    yield ""
    for name in lab.__all__:
        module = getattr(getattr(lab, name), "__module__", "")
        if module.startswith("headway."):
            yield from _member(module, name)
    for part, (module, names) in _PARTS.items():
        yield f"## {part}"
        yield ""
        for name in names:
            yield from _member(module, name)


def _member(module: str, name: str) -> Iterator[str]:
    yield f"::: {module}.{name}"
    yield "    options:"
    yield "      heading_level: 3"
    yield ""


def metrics() -> Iterator[str]:
    """Yield the lines of the page on metrics: names, kinds and meanings as the watcher serves them."""
    yield "# Metrics"
    yield ""
    yield "`headway watch --listen` serves these for Prometheus; this page is made from the code that writes them."
    yield "The guide [live](../guides/live.md) tells how to read them, which of them a process has itself, and OpenTelemetry's names."
    yield ""
    yield "| name | kind | meaning | labels |"
    yield "|---|---|---|---|"
    totals = Totals(roles={(0, "main"): RoleTotals()}, laps=[1], processes=1)
    text = "\n".join(exposition(totals))
    for name, what in re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE):
        kind = re.findall(rf"^# TYPE {name} (\S+)$", text, re.MULTILINE)[0]
        sample = re.search(rf"^{name}(?:_bucket)?\{{([^}}]*)\}}", text, re.MULTILINE)
        labels = [one for one in re.findall(r"(\w+)=", sample[1] if sample else "") if one != "le"]
        yield f"| `{name}` | {kind} | {_cell(what)} | {', '.join(f'`{one}`' for one in labels)} |"


def _words(comment: str) -> str:
    """Return the text of a C comment."""
    return re.sub(r"^ +\* ?", "", comment.strip(), flags=re.MULTILINE)


def _described(text: str) -> list[tuple[str, str, str]]:
    """Return the numbers and fields of a C header in their order: name, value or type, and the comment behind or above it."""
    found: list[tuple[str, str, str]] = []
    above, end = "", -1
    for part in _PART.finditer(text):
        if part["words"] is not None:
            words = _cell(_words(part["words"]))
            if found and end >= 0 and _OF_ONE_LINE.fullmatch(text, end, part.start()):
                found[-1] = (*found[-1][:2], words)
            elif not _HEADING.fullmatch(words):
                above = words
            end = -1
            continue
        name, value = (part["number"], part["value"]) if part["number"] else (part["field"], part["kind"])
        found.append((name, value, above))
        above, end = "", part.end()
    return found


def trace_file() -> Iterator[str]:
    """Yield the lines of the page on the trace file: the header's text, its numbers and its structs."""
    text = (ROOT / "native/trace/format.h").read_text("utf-8")
    yield "# The trace file"
    yield ""
    yield "This page is made from `native/trace/format.h`, which a test compares with the reader's structs."
    yield "`headway.traces` reads such files; `headway report FILE --json`, `--parquet`, `--perfetto`, `--gecko` and `--collapsed` convert them."
    yield ""
    head = re.search(r"/\*(.*?)\*/", text, re.DOTALL)
    yield "```text"
    yield _words(head[1] if head else "")
    yield "```"
    yield ""
    yield "## Numbers"
    yield ""
    yield "| name | value | meaning |"
    yield "|---|---|---|"
    numbers = text[text.index("#define HW__") :]
    for name, value, what in _described(_STRUCT.sub("", numbers)):
        yield f"| `{name}` | `{value}` | {what} |"
    for struct in _STRUCT.finditer(text):
        yield ""
        yield f"## {struct['name']}"
        yield ""
        yield _words(struct["words"] or "")
        yield ""
        yield "| field | type | meaning |"
        yield "|---|---|---|"
        for field, kind, what in _described(struct["body"]):
            yield f"| `{field}` | `{kind}` | {what} |"


def policy_header() -> Iterator[str]:
    """Yield the lines of the page on the policy header: the file itself."""
    yield "# The policy header"
    yield ""
    yield "A policy is a shared library that includes this header, which a wheel has in `headway/include/`."
    yield "The guide [Schedule a program's GIL](../guides/schedule-a-program.md) builds one."
    yield ""
    yield "```c"
    yield (ROOT / "native/include/headway/policy.h").read_text("utf-8").rstrip()
    yield "```"


PAGES: Mapping[str, Callable[[], Iterator[str]]] = {
    "reference/command-line.md": command_line,
    "reference/python.md": python,
    "reference/json.md": json_outputs,
    "reference/metrics.md": metrics,
    "reference/trace-file.md": trace_file,
    "reference/policy-header.md": policy_header,
}
"""Path below docs/ -> a function that yields the lines of the page. These pages are not files in docs/."""
