"""`headway report` of a run that is advice on a function: it is called what it is, and claims are not spoken of."""

from dataclasses import replace

import pytest
from synthetic import make_cell

from headway.errors import UsageError
from headway.lab.design import Declared
from headway.lab.kept.settings import ADVICE
from headway.lab.kept.store import Store
from headway.lab.launching import runner
from headway.report.lab.claimed import counted, heading, legend

RACE = Declared(name="advise app:f", question="Which?", method="-", included="-", metric="work_s", baseline="serial")


@pytest.fixture
def advice(make_run):
    """Return the stored run of a piece of advice."""
    run = make_run([(make_cell("advise app:f", "serial", "3.13.0"), {"work_s": [[1.0], [1.0]]})])
    settings = replace(run.settings, size=ADVICE, declared=(RACE,), budget_s=25.0)
    return replace(run, header=replace(run.header, settings=settings))


def test_advice_is_no_benchmark_of_pytest_and_has_no_claims(advice):
    """The report's first lines say that it is advice, and neither promise verdicts nor count none."""
    said = "\n".join((*heading(advice), *legend(advice)))
    assert "advice on a function, 2 launches" in said
    assert "pytest" not in said
    assert "claim" not in said
    assert counted(advice, ()).summary == "no claims"


def test_advice_is_not_resumed_as_benchmarks(advice, monkeypatch, tmp_path):
    """`headway lab --resume` of advice names the command that began it."""
    monkeypatch.setattr(Store, "find_run", lambda *_: advice.header)
    with pytest.raises(UsageError, match="is advice on a function") as caught:
        runner.resume("last", store_path=tmp_path / "synthetic.sqlite")
    assert caught.value.hint == "run `headway advise` again"
