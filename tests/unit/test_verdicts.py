"""The verdicts of a run on the claims."""

from dataclasses import replace

import pytest
from synthetic import make_cell, make_interpreter, make_machine

from headway.lab.design import Claim, Comparison, Experiment, Level, above, below, between
from headway.lab.experiments import experiments
from headway.lab.judging.evidence import TOO_MANY
from headway.lab.judging.open_claims import open_claims
from headway.lab.judging.verdicts import judge, speaking
from headway.lab.published import published_ratio, results


def launches(*values):
    return {"work_s": [[value] for value in values]}


def cpu_bound(make_run, threads, *, interpreter=None, **others):
    interpreter = interpreter or make_interpreter()
    cells = {"serial": [1.0, 1.01, 0.99, 1.0], "threads": threads, **others}
    return make_run(
        [(make_cell("cpu-bound", label, interpreter.id), launches(*values)) for label, values in cells.items()],
        [interpreter],
    )


def verdict_of(run, claim):
    return next(verdict for verdict in judge(run) if verdict.claim.id == claim)


@pytest.mark.parametrize(
    ("threads", "outcome"),
    [
        ([1.3, 1.31, 1.29, 1.3], "supported"),
        ([0.5, 0.51, 0.49, 0.5], "refuted"),
        ([0.6, 1.4, 0.7, 1.3], "inconclusive"),
    ],
)
def test_a_ratio_claim_follows_its_interval(make_run, threads, outcome):
    """The interval's place decides between supported, refuted and inconclusive."""
    verdict = verdict_of(cpu_bound(make_run, threads), "cpu-bound/threads-not-faster")

    assert verdict.outcome == outcome
    assert verdict.deciding.what == "threads / serial"
    assert verdict.deciding.interval.low <= verdict.deciding.interval.value <= verdict.deciding.interval.high
    assert verdict.sentence


def test_an_inconclusive_verdict_says_how_many_launches_would_do(make_run):
    """The sentence of an undecided comparison has an estimate larger than the launches spent."""
    verdict = verdict_of(cpu_bound(make_run, [1.0, 1.3, 0.95, 1.2]), "cpu-bound/threads-not-faster")

    assert verdict.outcome == "inconclusive"
    assert verdict.deciding.launches_to_decide > 4
    assert str(verdict.deciding.launches_to_decide) in verdict.sentence


def test_the_estimate_is_that_of_the_piece_that_needs_most(make_run, monkeypatch):
    """A claim needs the launches of its slowest comparison, in its sentence as in the list of open claims.

    The widest interval may need fewer, because its ratio is far from the threshold.
    """
    pieces = [Comparison(top=top, bottom="serial", relation=above(1)) for top in ("threads", "processes")]
    claim = Claim(id="paper/both", text="both are slower", evidence=lambda _: pieces, source="Headway")
    paper = Experiment(
        name="paper", question="?", method="-", included="-", baseline="serial", variants=lambda _: [], claims=(claim,)
    )
    monkeypatch.setattr("headway.lab.kept.results.experiments", lambda: (paper,))
    levels = {"serial": [1.0, 1.01, 0.99, 1.0], "threads": [0.9, 3.0, 1.0, 2.6], "processes": [1.0, 1.3, 0.95, 1.2]}
    interpreter = make_interpreter()
    run = make_run(
        [(make_cell("paper", label, interpreter.id), launches(*values)) for label, values in levels.items()],
        [interpreter],
    )

    (verdict,) = judge(run)
    few, many = sorted(one.launches_to_decide or 0 for one in verdict.evidence)
    assert (verdict.outcome, verdict.deciding.launches_to_decide) == ("inconclusive", few)
    assert few < many
    assert f"about {many} launches would decide" in verdict.sentence
    assert [one.to_decide for one in open_claims([verdict])] == [many]


def test_a_claim_is_as_good_as_its_worst_comparison(make_run):
    """One start method that refutes the claim refutes it, whatever the other shows."""
    run = cpu_bound(
        make_run,
        [1.0] * 4,
        **{"processes-spawn": [0.5, 0.51, 0.5, 0.5], "processes-forkserver": [1.5, 1.51, 1.5, 1.5]},
    )

    verdict = verdict_of(run, "cpu-bound/processes-faster")

    assert verdict.outcome == "refuted"
    assert verdict.deciding.what == "processes-forkserver / serial"


@pytest.mark.parametrize(
    ("spawn", "forkserver", "outcome"),
    [
        ([0.03, 0.06, 0.02, 0.04], [0.5, 0.51, 0.5, 0.5], "supported"),
        ([1.2, 1.21, 1.2, 1.2], [3.0, 9.0, 5.0, 4.0], "refuted"),
    ],
)
def test_a_claim_is_told_by_the_piece_that_decides_it(make_run, spawn, forkserver, outcome):
    """All pieces must hold, so the one nearest to its threshold decides; one that fails is enough, so the clearest does."""
    run = cpu_bound(make_run, [1.0] * 4, **{"processes-spawn": spawn, "processes-forkserver": forkserver})

    verdict = verdict_of(run, "cpu-bound/processes-faster")

    assert verdict.outcome == outcome
    assert verdict.deciding.what == "processes-forkserver / serial"


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        ("file-write/ten-files-no-gain", "supported"),
        ("file-write-and-sigma/little-gain", "supported"),
        ("convoy-switch-interval/switching-dominates", "refuted"),
    ],
)
def test_a_claim_of_no_gain_has_one_threshold(claim, expected):
    """Three times as long is certainly no gain; three times as many requests are certainly more."""
    found = next(one for each in experiments() for one in each.claims if one.id == claim)
    (piece,) = found.evidence(make_machine())

    assert piece.relation.contains(2.9, 3.1) == (expected == "supported")
    assert piece.relation.excludes(2.9, 3.1) == (expected == "refuted")
    assert piece.relation.excludes(0.2, 0.3) == (expected == "supported")


def test_claims_about_the_gil_keep_to_interpreters_with_one(make_run):
    """The GIL's claim is not judged on a free-threaded interpreter, and the other one is."""
    run = cpu_bound(make_run, [0.5, 0.51, 0.49, 0.5], interpreter=make_interpreter(free_threaded=True))

    assert verdict_of(run, "cpu-bound/threads-not-faster").outcome == "not measured"
    assert verdict_of(run, "cpu-bound/threads-faster-without-gil").outcome == "supported"


def race(make_run, lost_by_version):
    interpreters = [make_interpreter(version) for version in lost_by_version]
    cells = []
    for version, lost in lost_by_version.items():
        for label in ("+= 1, 5 ms", "list.append, 5 ms"):
            values = lost if label.startswith("+=") else 0
            cell = make_cell("race", label, version, params={"threads": 4, "k": 10})
            cells.append((cell, {"lost": [[values], [0]]}))
    return make_run(cells, interpreters)


def test_one_interpreter_that_loses_updates_is_enough(make_run):
    """The claim of non-atomicity holds if any interpreter shows it, and the sentence names that interpreter."""
    verdict = verdict_of(race(make_run, {"3.8.1": 0, "3.9.1": 12}), "race/not-atomic")

    assert verdict.outcome == "supported"
    assert "3.9 12" in verdict.sentence


def test_one_interpreter_that_shows_a_ratio_is_told_with_it(make_run):
    """A claim that one interpreter is enough for may be about a ratio, which has no count."""
    before = next(one for one in experiments() if one.name == "cpu-bound")
    claim = next(one for one in before.claims if one.id == "cpu-bound/threads-not-faster")
    run = cpu_bound(make_run, [3.96, 3.97, 3.98, 3.97])

    (verdict,) = judge(run, [replace(before, claims=(replace(claim, scope="any"),))])

    assert verdict.outcome == "supported"
    assert verdict.sentence.startswith("seen on 3.13 3.97 [")


def test_no_loss_anywhere_does_not_rule_it_out(make_run):
    """The claim of non-atomicity is open if no interpreter has shown a loss yet."""
    verdict = verdict_of(race(make_run, {"3.8.1": 0, "3.9.1": 0}), "race/not-atomic")

    assert (verdict.outcome, "does not rule it out" in verdict.sentence) == ("inconclusive", True)


@pytest.mark.parametrize(
    ("spawn", "sentence"),
    [
        ([0.5, 0.5], "no launch of processes-spawn / serial succeeded"),
        ([], "processes-spawn / serial: a cell was not launched"),
    ],
)
def test_cells_whose_launches_all_failed_or_are_to_come_keep_a_claim_open(make_run, spawn, sentence):
    """A start method that never succeeded keeps the claim open, and so does one that had no launch yet."""
    run = cpu_bound(make_run, [1.0] * 4, **{"processes-spawn": spawn, "processes-forkserver": [0.5, 0.51, 0.5, 0.5]})
    for result in run.of("cpu-bound"):
        for one in result.launches if result.cell.series == "processes-spawn" else ():
            one.launch.status = "failed"

    verdict = verdict_of(run, "cpu-bound/processes-faster")

    assert (verdict.outcome, verdict.sentence) == ("inconclusive", sentence)


def test_a_launch_that_measured_nought_is_no_failed_launch(make_run):
    """A value of 0 has no ratio, and the sentence says so; the launches have succeeded all the same."""
    verdict = verdict_of(cpu_bound(make_run, [1.3, 0.0, 1.29, 1.3]), "cpu-bound/threads-not-faster")

    assert verdict.outcome == "not measured"
    assert verdict.sentence == "threads / serial: a launch measured 0, so there is no ratio and no interval"


def test_a_count_without_launches_supports_nothing(make_run):
    """An append cell without a successful launch may hide a loss."""
    cells = [
        (make_cell("race", "list.append, 5 ms", "3.13.0", params={"threads": 4, "k": 10}), {"lost": [[0], [0]]}),
        (make_cell("race", "list.append, 1 us", "3.13.0", params={"threads": 4, "k": 10}), {}),
    ]

    assert verdict_of(make_run(cells), "race/append-safe").outcome == "inconclusive"


def test_a_mean_does_not_support_what_an_interpreter_refutes(make_run):
    """Two interpreters that deviate in opposite directions do not make a claim true."""
    first, second = make_interpreter("3.12.1"), make_interpreter("3.13.0")
    cells = []
    for interpreter, level in ((first, 0.8), (second, 1.25)):
        cells.append((make_cell("cpu-bound", "serial", interpreter.id), launches(1.0, 1.0, 1.0, 1.0)))
        cells.append((make_cell("cpu-bound", "asyncio", interpreter.id), launches(level, level, level, level)))

    verdict = verdict_of(make_run(cells, [first, second]), "cpu-bound/asyncio-equal")

    assert (verdict.interpreter, verdict.outcome) == ("all", "mixed")
    assert "3.12, 3.13" in verdict.sentence


def test_more_cores_than_the_sweep_are_said(make_run):
    """A sweep that ends below the physical cores is named as the reason, instead of the launches."""
    run = make_run([(make_cell("sha256", "1 thread", "3.13.0"), launches(1.0, 1.0))], machine=make_machine(16))

    verdict = verdict_of(run, "sha256/no-gain-past-cores")

    assert (verdict.outcome, "16 physical cores" in verdict.sentence) == ("not measured", True)


def test_a_claim_about_two_cores_says_so_on_one(make_run):
    """A claim that has no comparison on one core names the cores, and no sweep."""
    run = make_run([(make_cell("ccbench-throughput", "1 bz2", "3.13.0"), {})], machine=make_machine(1))

    verdict = verdict_of(run, "ccbench-throughput/bz2-gains")

    assert (verdict.outcome, verdict.sentence) == ("not measured", "the claim needs two cores")


def test_hyper_threads_may_add_to_the_cores_of_a_countdown_or_not():
    """On two cores with hyper-threads, four threads take a half to a quarter of the time, and a little more or less."""
    found = next(one for each in experiments() for one in each.claims if one.id == "countdown/falls-without-gil")
    relation = found.evidence(replace(make_machine(4), physical_cores=2))[1].relation

    assert relation.contains(0.21, 0.62)
    assert relation.excludes(0.63, 1.0)
    assert relation.excludes(0.1, 0.2)


@pytest.mark.parametrize(("size", "duration_s"), [("quick", 0.6), ("standard", 1.0), ("published", 5.0)])
def test_offered_requests_last_as_long_as_the_size_says(size, duration_s):
    """Requests at a rate last as long as other cases of the size; at quick size longer, so that there are some."""
    (found,) = (one for one in experiments() if one.name == "convoy-cases")
    offered = [one for one in found.variants(size) if "rate_per_s" in one.params]

    assert offered
    assert {one.params["duration_s"] for one in offered} == {duration_s}


def test_nothing_lost_supports_append(make_run):
    """A count of 0 in every sample supports a claim of none."""
    verdict = verdict_of(race(make_run, {"3.8.1": 5}), "race/append-safe")

    assert (verdict.outcome, verdict.deciding.count) == ("supported", 0)


def test_pairs_of_interpreters_are_compared_by_their_short_names(make_run):
    """A claim on 3.11 against 3.10 uses the run's patches of them, and is not measured without one of them."""

    def run(*versions):
        interpreters = [make_interpreter(version) for version in versions]
        levels = {"3.10.13": 1.0, "3.11.7": 0.7}
        cells = [
            (make_cell("single-thread", "kernels", version, group="g"), launches(*[levels[version]] * 3))
            for version in versions
        ]
        return make_run(cells, interpreters)

    both = verdict_of(run("3.10.13", "3.11.7"), "single-thread/3.11-faster")
    alone = verdict_of(run("3.11.7"), "single-thread/3.11-faster")

    assert (both.outcome, both.deciding.what) == ("supported", "3.11 / 3.10")
    assert alone.outcome == "not measured"
    assert "3.10" in alone.sentence


@pytest.mark.parametrize(
    ("relation", "low", "high", "contains", "excludes"),
    [
        (below(1), 0.5, 0.9, True, False),
        (below(1), 0.5, 1.0, False, False),
        (below(1), 1.0, 1.2, False, True),
        (above(1), 1.1, 2.0, True, False),
        (above(1), 0.9, 2.0, False, False),
        (above(1), 0.5, 1.0, False, True),
        (between(0.9, 1.1), 0.95, 1.05, True, False),
        (between(0.9, 1.1), 0.8, 1.05, False, False),
        (between(0.9, 1.1), 0.5, 0.89, False, True),
        (between(0.9, 1.1), 1.2, 1.3, False, True),
    ],
)
def test_relations_at_their_edges(relation, low, high, contains, excludes):
    """A relation contains, crosses or excludes an interval."""
    assert (relation.contains(low, high), relation.excludes(low, high)) == (contains, excludes)


def test_every_published_figure_of_a_claim_is_there():
    """Each claim's published ratios resolve, and each experiment's sources are in published.toml."""
    sources = {result["source"] for result in results()}
    for experiment in experiments():
        assert set(experiment.sources) <= sources
        for claim in experiment.claims:
            for published in claim.published:
                assert published_ratio(published) > 0


def test_every_published_result_of_these_experiments_is_cited():
    """Each published result of an experiment here is named by that experiment."""
    for experiment in experiments():
        theirs = {result["source"] for result in results() if result["experiment"] == experiment.name}
        assert theirs <= set(experiment.sources)


def test_claims_name_variants_that_exist():
    """Every label in a claim's evidence is a variant of its experiment, at every size and on 1 to 64 cores."""
    for experiment in experiments():
        for size in ("quick", "standard", "published"):
            labels = {variant.label for variant in experiment.variants(size)}
            for claim in experiment.claims:
                for cores in (1, 2, 4, 8, 64):
                    for piece in claim.evidence(make_machine(cores)):
                        if isinstance(piece, Level):
                            named = {piece.label}
                        else:
                            named = set(piece.labels) if hasattr(piece, "labels") else {piece.top, piece.bottom}
                        assert named <= labels, claim.id


def test_every_published_result_has_a_claim_with_its_figures():
    """Each result of published.toml is compared with ours by at least one claim (E1 alone has no figures to compare)."""
    figures = [figure for one in experiments() for claim in one.claims for figure in claim.published]
    said = {(figure.source, figure.setting) for figure in figures}
    said |= {(figure.bottom_source, figure.bottom_setting) for figure in figures if figure.bottom_source}
    silent = [
        result["setting"]
        for result in results()
        if not any(source == result["source"] and words in result["setting"] for source, words in said)
    ]

    assert [setting for setting in silent if not setting.startswith("time stamp sent through a pipe")] == []
    assert all(published_ratio(figure) > 0 for figure in figures)


def test_claim_ids_are_unique_and_begin_with_their_experiment():
    """Ids name the experiment and no two are equal."""
    ids = [claim.id for experiment in experiments() for claim in experiment.claims]
    assert len(ids) == len(set(ids))
    for experiment in experiments():
        assert all(claim.id.startswith(f"{experiment.name}/") for claim in experiment.claims)


def test_the_mean_over_interpreters_says_what_no_single_one_can(make_run):
    """The mean of two noisy interpreters with independent noise is decided, although each of them is open."""
    first, second = make_interpreter("3.12.1"), make_interpreter("3.13.0")
    noise = [1.25, 0.85, 1.2, 0.8]
    cells = []
    for interpreter, factors in ((first, noise), (second, [1 / factor for factor in noise])):
        cells.append((make_cell("cpu-bound", "serial", interpreter.id), launches(1.0, 1.0, 1.0, 1.0)))
        cells.append(
            (make_cell("cpu-bound", "threads", interpreter.id), launches(*[1.1 * factor for factor in factors]))
        )

    verdicts = [
        one for one in judge(make_run(cells, [first, second])) if one.claim.id == "cpu-bound/threads-not-faster"
    ]

    outcomes = {one.interpreter: one.outcome for one in verdicts}
    assert outcomes == {"all": "supported", first.id: "inconclusive", second.id: "inconclusive"}
    assert verdicts[0].deciding.interval.value == pytest.approx(1.1)


@pytest.mark.parametrize(("unclear", "outcome"), [((), "inconclusive"), ((0.5, 0.51, 0.5, 0.5), "supported")])
def test_a_mean_speaks_only_for_all_comparisons_of_a_claim(make_run, unclear, outcome):
    """A comparison that has figures on one interpreter only has no mean, so the mean of the others is not enough."""
    first, second = make_interpreter("3.12.1"), make_interpreter("3.13.0")
    cells = []
    for interpreter, forkserver in ((first, (0.5, 0.51, 0.5, 0.5)), (second, unclear)):
        for label, values in (
            ("serial", (1.0, 1.01, 0.99, 1.0)),
            ("processes-spawn", (0.5, 0.51, 0.5, 0.5)),
            ("processes-forkserver", forkserver),
        ):
            cells.append((make_cell("cpu-bound", label, interpreter.id), launches(*values)))

    found = [one for one in judge(make_run(cells, [first, second])) if one.claim.id == "cpu-bound/processes-faster"]

    assert speaking(found).outcome == outcome
    assert ("all" in {one.interpreter for one in found}) == bool(unclear)


def test_cells_that_took_turns_are_compared_sample_by_sample(make_run):
    """A slow machine in one round cancels out, where medians of each launch would keep it."""
    serial, threads = (make_cell("cpu-bound", label, "3.13.0") for label in ("serial", "threads"))
    run = make_run(
        [
            (serial, {"work_s": [[1.0, 5.0, 1.0], [1.0, 1.0, 4.0]]}),
            (threads, {"work_s": [[2.0, 10.0, 6.0], [8.0, 2.0, 8.0]]}),
        ]
    )
    for block in range(2):
        for result in run.results.values():
            result.launches[block].launch.facts["shared"] = f"process {block}"
    apart = make_run(
        [
            (cell, {"work_s": [list(launch) for launch in result.samples("work_s")]})
            for cell, result in ((serial, run.results[serial.key]), (threads, run.results[threads.key]))
        ]
    )

    both = run.results[threads.key].ratios(run.results[serial.key], "work_s")
    medians = apart.results[threads.key].ratios(apart.results[serial.key], "work_s")

    assert both == {0: 2.0, 1: 2.0}
    assert medians == {0: 6.0, 1: 8.0}


def test_launches_behind_a_ratio_are_the_blocks_that_both_have(make_run):
    """Only the blocks that both cells have count, and an estimate is made from them."""
    interpreter = make_interpreter()
    serial, threads = (make_cell("cpu-bound", label, interpreter.id) for label in ("serial", "threads"))
    run = make_run(
        [(serial, launches(*[1.0, 1.1, 0.9] * 4)), (threads, launches(*[0.9, 1.2, 0.95] * 4))], [interpreter]
    )
    for place, cell in enumerate((serial, threads)):
        result = run.results[cell.key]
        kept = tuple(one for one in result.launches if one.block < 3 or one.block % 2 == place)
        run.results[cell.key] = replace(result, launches=kept)

    one = verdict_of(run, "cpu-bound/threads-not-faster").deciding

    assert one.launches == 3
    assert one.outcome == "inconclusive"


def test_too_many_launches_are_told_apart_from_none_known(make_run):
    """A ratio on its threshold, with noise, is not advised any number of launches."""
    verdict = verdict_of(
        cpu_bound(make_run, [0.95 * factor for factor in (0.5, 2, 0.5, 2)]), "cpu-bound/threads-not-faster"
    )

    assert verdict.deciding.launches_to_decide == TOO_MANY
    assert "too close for more launches to decide" in verdict.sentence
