"""Benchmarks of a test session as a run of the results store."""

from headway.lab.kept.results import load_run
from headway.measure.journal import Entry
from headway.measure.keep import Kept
from headway.measure.measured import Measured
from headway.measure.result import Result


def test_a_test_that_runs_again_replaces_its_launches(tmp_path):
    """The run has the last result of a benchmark, as the tables at the end of the session do."""
    kept = Kept(tmp_path / "results.sqlite", 1, "0")
    for value, failed in ((1.0, ("exit code 3",)), (2.0, ())):
        launches = (Measured(values_s=(value,), calls=1),)
        result = Result(name="it", model="serial", launches=launches, failed=failed)
        kept.add("test_it.py::test", Entry(result, "f", "it"))
    kept.close()

    (found,) = load_run(kept.run_id, store=tmp_path / "results.sqlite").results.values()
    assert [one.launch.samples for one in found.launches] == [{"call_s": [2.0]}]
