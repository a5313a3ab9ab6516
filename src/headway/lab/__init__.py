"""The lab measures declared experiments on real interpreters, and says what the figures mean for published claims.

A run goes through these parts:

- `design` and `experiments`: experiments declare variants of a workload, and claims about their figures.
- `plan` and `launching`: a plan multiplies the variants by interpreters and placements into cells; each launch is one
  fresh process, of one cell or of several that take turns.
- `beside`: libraries, servers and volumes that a launch needs.
- `kept`: the results store.
- `predicting`: predictions by the simulator, stored before the launches that test them.
- `stats` and `sequential`: intervals, and the rule for a run that looks at its claims again and again.
- `judging`: verdicts on claims, and findings.

Three lines run the lab and return values::

    from headway import lab
    run = lab.run(lab.Request(experiments=["countdown"]))
    for verdict in lab.judge(run): print(verdict.interpreter, verdict.claim.text, verdict.outcome)
"""

from typing import TYPE_CHECKING

from headway.first_use import imported_on_first_use

# Not on first use: the function has the name of its package, which would be in its place.
from headway.lab.experiments import experiment, experiments

if TYPE_CHECKING:
    from headway.host.doctor import Check, examine
    from headway.host.interpreters import Interpreter, discover, probe, select
    from headway.host.machine import Machine, this_machine
    from headway.host.paths import default_store
    from headway.lab.design import Cell, Claim, Comparison, Count, Experiment, Level, Published, Variant
    from headway.lab.judging.compare import Difference, compare
    from headway.lab.judging.evidence import Evidence
    from headway.lab.judging.verdicts import Verdict, judge
    from headway.lab.kept.headers import RunHeader
    from headway.lab.kept.results import CellResult, Run, load_run
    from headway.lab.kept.settings import Settings
    from headway.lab.kept.store import Store
    from headway.lab.launching.lock import only_lab
    from headway.lab.launching.request import Request
    from headway.lab.launching.runner import resume, run
    from headway.lab.launching.session import Progress
    from headway.lab.stats import Interval

__all__ = [
    "Cell",
    "CellResult",
    "Check",
    "Claim",
    "Comparison",
    "Count",
    "Difference",
    "Evidence",
    "Experiment",
    "Interpreter",
    "Interval",
    "Level",
    "Machine",
    "Progress",
    "Published",
    "Request",
    "Run",
    "RunHeader",
    "Settings",
    "Store",
    "Variant",
    "Verdict",
    "compare",
    "default_store",
    "discover",
    "examine",
    "experiment",
    "experiments",
    "judge",
    "load_run",
    "only_lab",
    "probe",
    "resume",
    "run",
    "select",
    "this_machine",
]

_PLACES = {
    **dict.fromkeys(("Check", "examine"), "host.doctor"),
    **dict.fromkeys(("Interpreter", "discover", "probe", "select"), "host.interpreters"),
    **dict.fromkeys(("Machine", "this_machine"), "host.machine"),
    "default_store": "host.paths",
    **dict.fromkeys(
        ("Cell", "Claim", "Comparison", "Count", "Experiment", "Level", "Published", "Variant"), "lab.design"
    ),
    **dict.fromkeys(("Difference", "compare"), "lab.judging.compare"),
    "Evidence": "lab.judging.evidence",
    **dict.fromkeys(("Verdict", "judge"), "lab.judging.verdicts"),
    **dict.fromkeys(("CellResult", "Run", "load_run"), "lab.kept.results"),
    "Settings": "lab.kept.settings",
    "RunHeader": "lab.kept.headers",
    "Store": "lab.kept.store",
    "only_lab": "lab.launching.lock",
    "Request": "lab.launching.request",
    **dict.fromkeys(("resume", "run"), "lab.launching.runner"),
    "Progress": "lab.launching.session",
    "Interval": "lab.stats",
}

# A session of the pytest plugin, or a command, needs a few of these modules only.
__getattr__ = imported_on_first_use(__name__, _PLACES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
