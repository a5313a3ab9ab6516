"""The lab: declared experiments, planned launches on real interpreters, statistics, verdicts.

Three lines run it and give values::

    from headway import lab
    run = lab.run(lab.Request(experiments=["countdown"]))
    for verdict in lab.judge(run): print(verdict.interpreter, verdict.claim.text, verdict.outcome)
"""

from headway.host.doctor import Check, examine
from headway.host.interpreters import Interpreter, discover, probe, select
from headway.host.machine import Machine, this_machine
from headway.host.paths import default_store
from headway.lab.design import Cell, Claim, Comparison, Count, Experiment, Level, Published, Variant
from headway.lab.experiments import experiment, experiments
from headway.lab.judging.compare import Difference, compare
from headway.lab.judging.evidence import Evidence
from headway.lab.judging.verdicts import Verdict, judge
from headway.lab.kept.results import CellResult, Run, load_run
from headway.lab.kept.settings import Settings
from headway.lab.kept.store import RunHeader, Store
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
    "probe",
    "resume",
    "run",
    "select",
    "this_machine",
]
