"""Add predictions to a trace's report: the change that would help the program most, and the effect of each remedy.

Only changes inside the model are predicted, and the predictions may take `_MOST_S` seconds. An error in a prediction
never makes a report fail.
"""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from headway.printable import printable

if TYPE_CHECKING:
    from headway.sim.ranking import Ranked
    from headway.sim.replay.change import Change
    from headway.traces.analysis import Analysis, Finding
    from headway.traces.model import Trace

__all__ = ["with_predictions"]

_MOST_S = 1.5
_INTERVAL, _POLICY, _SHORTEN = "interval", "policy", "shorten"
_HELPS = {
    "convoy": (_POLICY, _INTERVAL, _SHORTEN),
    "waits": (_POLICY, _INTERVAL, _SHORTEN),
    "behind-a-function": (_SHORTEN, _POLICY),
    "long-hold": (_SHORTEN,),
}
"""The kind of a finding -> the kinds of changes that are remedies for it."""


def with_predictions(traces: "Sequence[Trace]", analyses: "Sequence[Analysis]", path: Path) -> "list[Analysis]":
    """Return the analyses in the same order, with predictions for the process whose threads waited most.

    Args:
        traces: One trace per analysis.
        analyses: The analyses of whole traces.
        path: The file of the first process's trace.
    """
    found = list(analyses)
    most = max(range(len(found)), key=lambda place: found[place].wait_ns, default=None)
    if most is None or not found[most].gils or all(one.weight != "problem" for one in found[most].findings):
        return found  # the GIL does not slow the program down
    try:
        of_child = path.with_name(f"{path.name.removesuffix('.hwt')}.{traces[most].process.pid}.hwt")
        found[most] = _predicted(traces[most], found[most], path if most == 0 else of_child)
    except Exception:  # noqa: BLE001 - no error of a prediction may prevent the report
        return list(analyses)
    return found


def _predicted(trace: "Trace", analysis: "Analysis", path: Path) -> "Analysis":
    from headway.cli.whatif_view import headline
    from headway.sim.machine import PRESET, kept
    from headway.sim.ranking import remedies
    from headway.sim.whatif import cores_of
    from headway.traces.analysis import WhatIf

    costs = kept()
    ranked = remedies(trace, costs, cores=cores_of(trace), most_s=_MOST_S)
    if not ranked:
        return analysis
    best = ranked[0]
    gives = printable(headline(best.prediction))
    of_preset = " (preset costs)" if costs.name == PRESET else ""
    name = shlex.quote(str(path)) if path.is_file() else "FILE"
    line = f"most helpful change: {best.prediction.change}: {gives}{of_preset}; more: `headway whatif {name}`"
    what_if = WhatIf(str(best.prediction.change), gives, best.worth, costs.name, printable(line))
    findings = tuple(_with_remedies(one, ranked, _roles(one, trace, analysis), of_preset) for one in analysis.findings)
    return replace(analysis, what_if=what_if, findings=findings)


def _roles(finding: "Finding", trace: "Trace", analysis: "Analysis") -> list[str]:
    """Return the names that the roles of a finding's threads may have in a prediction: of one thread, or of several."""
    from headway.traces.analysis.words import role

    names = dict(zip(analysis.labels, (printable(one.name) for one in trace.threads), strict=True))
    return [each for label in finding.threads for name in (names.get(label) or label,) for each in (name, role(name))]


def _with_remedies(finding: "Finding", ranked: "Sequence[Ranked]", about: "Sequence[str]", of_preset: str) -> "Finding":
    from headway.cli.whatif_view import headline

    wanted = _HELPS.get(finding.kind, ())
    told = [
        printable(f"{words}: {headline(one.prediction, about)}{of_preset}")
        for one in ranked
        for kind, words in (_remedy(one.prediction.change),)
        if kind in wanted and _is_about(one.prediction.change, finding)
    ]
    return replace(finding, predicted=tuple(told))


def _is_about(change: "Change", finding: "Finding") -> bool:
    """Tell whether a change of a line is one of the finding's own line; other changes concern all lines."""
    frame = finding.frame
    return all(frame is not None and (one.filename, one.line) == (frame.filename, frame.line) for one in change.shorten)


def _remedy(change: "Change") -> tuple[str, str]:
    """Return the kind of a change, and how a user makes it."""
    from headway.sim.scenario import STOCK
    from headway.traces.analysis.words import short_path

    if change.shorten:
        one = change.shorten[0]
        return (
            _SHORTEN,
            f"holds that end at {short_path(one.filename)}:{one.line} taking {one.factor:g} of their present time",
        )
    if change.interval_ns:
        return _INTERVAL, f"`sys.setswitchinterval({change.interval_ns / 1e9:g})`"
    if change.policy == STOCK:
        return _POLICY, "without a policy"
    return _POLICY, f"`headway run`, policy {change.policy}"
