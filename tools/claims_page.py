"""Writes docs/concepts/published-claims.md from a stored run of the lab: each claim, the author's figure, ours, and why.

usage: claims_page.py [RUN [STORE]]      RUN is an id or `last`, as for `headway report`

The run is one of `headway lab` on all experiments. The page says of which machine, day and interpreters its figures are.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from headway import lab
from headway.lab.judging.verdicts import judge
from headway.lab.published import sources
from headway.report.lab.claimed import Claimed, claimed, counted, heading

__all__ = ["main", "page"]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "concepts" / "published-claims.md"
# The outcome that says most first.
ORDER = ("refuted", "mixed", "at the limit", "supported", "inconclusive", "not measured")


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def _figures(one: Claimed) -> str:
    """Return the verdict with its figures: over all interpreters, else by interpreter."""
    parts = [f"**{outcome.outcome}** {outcome.figures}".strip() for outcome in one.outcomes if outcome.figures]
    return "<br>".join(_cell(part) for part in parts) or f"**{one.outcome}**"


def _table(found: list[Claimed], why: dict[str, str]) -> Iterator[str]:
    yield "| claim | published | here | why |"
    yield "|---|---|---|---|"
    for one in sorted(found, key=lambda claim: ORDER.index(claim.outcome)):
        published = f"{one.published or '-'} ({one.source})" if not one.published else one.published
        yield f"| {_cell(one.text)} | {_cell(published)} | {_figures(one)} | {_cell(why.get(one.id, ''))} |"


def page(run: lab.Run) -> Iterator[str]:
    """Yield the lines of the page of a run."""
    verdicts = judge(run)
    why = {verdict.claim.id: verdict.claim.why for verdict in verdicts}
    claims = claimed(run, verdicts)
    yield "# Published claims, measured"
    yield ""
    yield "Articles about the GIL, asyncio and free-threaded Python make claims, with figures of their authors' machines."
    yield "The lab makes each of them again, and says which ones hold here."
    yield "A figure is a ratio with its interval; absolute times of two machines cannot be compared, and are not."
    yield ""
    yield f"This page is made by `tools/claims_page.py` from one run of `headway lab`, of {run.header.started_at[:10]}:"
    yield ""
    # The folders are one machine's own, and say nothing to a reader.
    yield "| the run |"
    yield "|---|"
    for line in heading(run):
        if not line.startswith("files: "):
            yield f"| {_cell(line)} |"
    yield ""
    yield f"The run judged {counted(run, verdicts).summary}."
    yield "`headway lab` makes the same page's figures for your machine, and `headway report last` shows them."
    yield ""
    yield "## The sources"
    yield ""
    yield "| letter | source |"
    yield "|---|---|"
    for letter, text in sources().items():
        yield f"| {letter} | {_cell(text)} |"
    for experiment in run.experiments():
        found = [one for one in claims if one.experiment == experiment.name]
        if found:
            yield ""
            yield f"## {experiment.name}"
            yield ""
            yield experiment.question
            yield f"`headway lab --explain {experiment.name}` tells the method."
            yield ""
            yield from _table(found, why)


def main(arguments: list[str]) -> int:
    """Write the page; return 0."""
    store = Path(arguments[1]) if len(arguments) > 1 else None
    run = lab.load_run(arguments[0] if arguments else "last", store=store)
    PAGE.write_text("\n".join(page(run)) + "\n", "utf-8")
    print(PAGE)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
