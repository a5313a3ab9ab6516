"""The lab: declared experiments, planned launches on real interpreters, statistics, verdicts.

Three lines run it and give values::

    from headway import lab
    run = lab.run(lab.Request(experiments=["countdown"]))
    for verdict in lab.judge(run): print(verdict.interpreter, verdict.claim.text, verdict.outcome)
"""

from headway.lab.compare import Difference, compare
from headway.lab.design import Cell, Claim, Comparison, Count, Experiment, Level, Published, Variant
from headway.lab.doctor import Check, examine
from headway.lab.evidence import Evidence
from headway.lab.experiments import experiment, experiments
from headway.lab.interpreters import Interpreter, discover, probe, select
from headway.lab.machine import Machine, this_machine
from headway.lab.paths import default_store
from headway.lab.results import CellResult, Run, load_run
from headway.lab.runner import Request, resume, run
from headway.lab.session import Progress
from headway.lab.settings import Settings
from headway.lab.stats import Interval
from headway.lab.store import RunHeader, Store
from headway.lab.verdicts import Verdict, judge

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
