"""Findings of a run: those of claims, the quickest model, and where the order of series turns."""

import dataclasses

import pytest
from synthetic import make_cell, make_interpreter

from headway.lab.design import Claim, Comparison, Count, Experiment, Level, above, below
from headway.lab.judging.crossover import curves, sized, winners
from headway.lab.judging.figures import number
from headway.lab.judging.findings import findings, spanned
from headway.lab.judging.verdicts import judge
from headway.report import run_to_json

GIL = make_interpreter("3.15.2")
FREE = make_interpreter("3.13.5", free_threaded=True)
SIZES = (2**16, 2**18, 2**20, 2**22)


def claim(**changes):
    values = {
        "id": "paper/quicker",
        "text": "threads are quicker",
        "evidence": lambda _: [Comparison(top="threads", bottom="serial", relation=below(1))],
        "source": "Headway",
        "says": "Threads take {ratio} of the time, {inverse} times as quick.",
        "denies": "Threads are no quicker: {ratio}.",
        "advice": "Use threads.",
    }
    return Claim(**{**values, **changes})


@pytest.fixture
def declare(monkeypatch):
    """Return a function that makes an experiment on paper the only one."""

    def declare(*claims, **changes):
        values = {"name": "paper", "question": "?", "method": "-", "included": "-", "baseline": "serial"}
        one = Experiment(**{**values, "variants": lambda _: [], "claims": claims, **changes})
        monkeypatch.setattr("headway.lab.kept.results.experiments", lambda: (one,))
        return one

    return declare


def cell(series, values, interpreter=GIL, *, setting="", metric="work_s", placement="free", **params):
    label = f"{series}, {setting}" if setting else series
    made = make_cell(
        "paper", label, interpreter.id, placement, series=series, setting=setting, params=params, model=series
    )
    return made, {metric: [[value] for value in values]}


def around(value):
    """Return five launches with little noise."""
    return [value * noise for noise in (0.99, 1.0, 1.01, 1.0, 0.995)]


def found(run):
    return findings(run, judge(run))


def of_claims(run):
    return [one for one in found(run) if one.claim]


def test_a_supported_claim_says_so_with_its_figure_and_advice(make_run, declare):
    """The placeholders are filled with the ratio and its inverse, both with their intervals."""
    declare(claim())
    (one,) = of_claims(make_run([cell("serial", around(1.0)), cell("threads", around(0.5))], [GIL]))

    assert one.text == "Threads take 0.50 [0.50-0.50] of the time, 2.00 [2.00-2.00] times as quick."
    assert one.evidence == "threads / serial 0.50 [0.50-0.50] on 3.15"
    assert (one.holds_on, one.fails_on, one.advice) == (("3.15",), (), "Use threads.")


def test_a_refuted_claim_is_denied_without_advice(make_run, declare):
    """A refuted claim has no advice, because the advice does not follow from the opposite."""
    declare(claim())
    (one,) = of_claims(make_run([cell("serial", around(1.0)), cell("threads", around(2.0))], [GIL]))

    assert one.text == "Threads are no quicker: 2.00 [2.00-2.00]."
    assert (one.holds_on, one.advice) == (("3.15",), "")


def test_an_undecided_claim_tells_nothing(make_run, declare):
    """A claim gives no finding if its interval crosses the threshold, or if it is no news."""
    declare(claim(), claim(id="paper/no-news", says="", denies=""))
    run = make_run([cell("serial", [1.0, 1.2, 0.9, 1.1]), cell("threads", [1.1, 0.9, 1.2, 0.9])], [GIL], launches=4)

    assert of_claims(run) == []


def test_the_mean_speaks_and_interpreters_that_differ_take_the_advice_away(make_run, declare):
    """The mean over interpreters gives the finding; interpreters that show opposites leave no finding and no advice."""
    declare(claim())
    agreed = [
        cell(series, around(level), one)
        for one in (GIL, FREE)
        for series, level in (("serial", 1.0), ("threads", 0.5 if one is GIL else 0.25))
    ]
    (one,) = of_claims(make_run(agreed, [GIL, FREE]))
    assert one.text.startswith("Threads take 0.35 [")
    assert "mean over 3.15 and 3.13t" in one.evidence
    assert one.advice

    differing = [*agreed[:3], cell("threads", around(1.3), FREE)]
    assert of_claims(make_run(differing, [GIL, FREE])) == []


def test_a_mean_names_the_interpreters_behind_it(make_run, declare):
    """An interpreter is not named whose cell of the deciding comparison failed, although it has other figures."""
    both = [Comparison(top=name, bottom="serial", relation=below(1)) for name in ("threads", "asyncio")]
    declare(claim(evidence=lambda _: both))
    third = make_interpreter("3.14.1")
    run = make_run(
        [
            cell(series, around(level) if (one, series) != (third, "threads") else [], one)
            for one in (GIL, FREE, third)
            for series, level in (("serial", 1.0), ("threads", 0.8), ("asyncio", 0.5))
        ],
        [GIL, FREE, third],
    )
    (one,) = of_claims(run)

    assert one.evidence.startswith("threads / serial 0.80")
    assert "mean over 3.15 and 3.13t" in one.evidence


def test_where_no_mean_speaks_the_least_favourable_does(make_run, declare):
    """Levels have no mean over interpreters: a refuting interpreter is reported, with those that do not refute."""
    share = Level(label="serial", relation=above(0.5), metric="of_bound")
    declare(claim(evidence=lambda _: [share], denies="It stays below: {ratio}."))
    run = make_run(
        [
            cell("serial", around(0.9), metric="of_bound"),
            cell("serial", around(0.1), FREE, metric="of_bound"),
        ],
        [GIL, FREE],
    )
    (one,) = of_claims(run)

    assert one.text == "It stays below: 0.10 [0.099-0.10]."
    assert one.evidence == "of bound of serial 0.10 [0.099-0.10] on 3.13t; not on 3.15"
    assert (one.holds_on, one.fails_on) == (("3.13t",), ("3.15",))


def test_one_launch_carries_no_advice(make_run, declare):
    """A count from one launch may support a claim, but advice needs more launches."""
    count = Count(labels=("serial",), metric="lost", expect="some")
    declare(claim(evidence=lambda _: [count], says="{ratio} got lost."))

    (once,) = of_claims(make_run([cell("serial", [80_700], metric="lost")], [GIL], launches=1))
    (twice,) = of_claims(make_run([cell("serial", [80_700, 1], metric="lost")], [GIL], launches=2))

    assert (once.text, once.advice) == ("80,700 got lost.", "")
    assert once.evidence.endswith("from one launch")
    assert twice.advice == "Use threads."


def test_the_quickest_model_is_named_by_kind_of_interpreter(make_run, declare):
    """The quickest model is named with those that cannot be told from it; series with other work do not count."""
    declare()
    cells = [
        cell("serial", around(1.0), times=3),
        cell("threads", around(1.2), times=3),
        cell("asyncio", around(0.3), times=1),
        cell("processes", [0.52, 0.6, 0.5, 0.58, 0.55], times=3),
        cell("interpreters", [0.6, 0.52, 0.57, 0.5, 0.58], times=3),
        cell("serial", around(1.0), FREE, times=3),
        cell("threads", around(0.5), FREE, times=3),
    ]
    (one,) = found(make_run(cells, [GIL, FREE]))

    assert one.text == "fastest model with a GIL: interpreters or processes; without a GIL: threads"
    assert "threads 0.50 [0.50-0.50] of serial, on 3.13t" in one.evidence
    assert "not distinguishable from" in one.evidence


def test_a_run_of_some_models_does_not_name_the_fastest_of_all(make_run, declare):
    """With --model the others were not measured, and one of them may be faster."""
    declare()
    run = make_run([cell("serial", around(1.0)), cell("threads", around(0.5))], [GIL])
    settings = dataclasses.replace(run.settings, models=("threads",))
    (one,) = found(dataclasses.replace(run, header=dataclasses.replace(run.header, settings=settings)))

    assert one.text == "fastest of the measured models with a GIL: threads"


def test_a_model_too_noisy_to_be_quicker_is_no_slower_than_the_quickest_either(make_run, declare):
    """A model with a wide interval, which contains 1, is no winner, and is told apart from a clearly slower one."""
    declare()
    cells = [
        cell("serial", around(1.0)),
        cell("threads", around(0.9)),
        cell("interpreters", [0.3, 1.2, 0.5, 0.9, 0.4]),
        cell("processes", around(1.5)),
    ]
    run = make_run(cells, [GIL])
    (won,) = winners(run, declare())
    (one,) = found(run)

    assert (won.series, won.like, won.unclear) == ("threads", (), ("interpreters",))
    assert one.text == "fastest model with a GIL: threads"
    assert one.evidence.endswith("not distinguishable from interpreters")


def test_the_quickest_model_is_beaten_by_none_where_both_were_measured(make_run, declare):
    """A mean over other interpreters may be less, and the series still slower where both were measured."""
    other = make_interpreter("3.14.0")
    cells = [
        cell("serial", around(1.0)),
        cell("threads", around(0.5)),
        cell("processes", around(0.4)),
        cell("serial", around(1.0), other),
        cell("processes", around(0.9), other),
    ]
    (won,) = winners(make_run(cells, [GIL, other]), declare())

    assert won.ratio.value > 0.5
    assert (won.series, won.like) == ("processes", ())


def test_where_nothing_is_quicker_that_is_said_by_setting(make_run, declare):
    """A model whose interval contains 1 is no winner."""
    declare()
    cells = [
        cell("serial", around(1.0), setting="disk"),
        cell("threads", around(0.5), setting="disk"),
        cell("serial", around(1.0), setting="tmpfs"),
        cell("threads", around(1.0), setting="tmpfs"),
    ]
    (one,) = found(make_run(cells, [GIL]))

    assert one.text == "fastest model with a GIL: threads (disk), none is faster than serial (tmpfs)"
    assert one.evidence.endswith("elsewhere no interval lies below 1, on 3.15")


def test_a_model_that_may_be_quicker_is_not_said_to_be_none(make_run, declare):
    """A wide interval shows neither a winner nor that there is none."""
    declare()
    cells = [
        cell("serial", around(1.0)),
        cell("threads", [0.3, 2.5, 0.4, 1.4, 0.6]),
        cell("processes", around(1.5)),
    ]
    (one,) = found(make_run(cells, [GIL]))

    assert one.text == "fastest model with a GIL: none is shown to be faster than serial, though threads may be"


def test_one_launch_makes_no_winner(make_run, declare):
    """Without intervals no model is quicker, and that is no finding either."""
    one = declare()
    run = make_run([cell("serial", [1.0]), cell("threads", [0.5])], [GIL], launches=1)

    assert list(winners(run, one)) == []


def swept(ratios, *, metric="work_s", interpreter=GIL, unsure=()):
    """Return cells by size, in which threads take `ratios` of serial's value."""
    cells = []
    for size, value in zip(SIZES, ratios, strict=True):
        setting = f"{sized(size, 'size_bytes')}, disk"
        noisy = [value * noise for noise in (0.5, 2.0, 0.6, 1.7, 1.0)] if size in unsure else around(value)
        cells.append(cell("serial", around(1.0), interpreter, setting=setting, metric=metric, size_bytes=size))
        cells.append(cell("threads", noisy, interpreter, setting=setting, metric=metric, size_bytes=size))
    return cells


def crossing(run):
    (one,) = [one for one in found(run) if "compared with" in one.text]
    return one.text


def test_threads_that_begin_to_pay_are_found_with_their_size(make_run, declare):
    """The crossing lies between the two sizes on either side of 1, interpolated on a logarithmic scale."""
    declare(sweep="size_bytes")
    run = make_run(swept((4.0, 2.0, 0.5, 0.25)), [GIL])

    assert crossing(run) == (
        "threads compared with serial, disk: on 3.15 behind up to about 510 KiB (between 256 KiB and 1 MiB), then ahead"
    )
    (one,) = found(run)
    assert one.evidence == "3.15 2.00 [2.00-2.00] at 256 KiB, 0.50 [0.50-0.50] at 1 MiB"


def test_both_directions_are_reported(make_run, declare):
    """Threads may begin to pay and stop again beyond what the device can take, and both crossings are reported."""
    declare(sweep="size_bytes")

    assert crossing(make_run(swept((2.0, 0.5, 0.5, 2.0)), [GIL])).endswith(
        "behind up to about 130 KiB (between 64 KiB and 256 KiB), "
        "then ahead up to about 2 MiB (between 1 MiB and 4 MiB), then behind"
    )


def test_of_rates_more_is_better(make_run, declare):
    """A rate turns the same ratios the other way round."""
    declare(sweep="size_bytes", metric="writes_per_s", unit="per_s")

    assert "ahead up to about 510 KiB" in crossing(make_run(swept((4.0, 2.0, 0.5, 0.25), metric="writes_per_s"), [GIL]))


def test_an_order_that_never_turns_is_said_with_its_winner(make_run, declare):
    """An order that never turns is reported with its winner, once for two interpreters that agree."""
    declare(sweep="size_bytes")
    ratios = (0.5, 0.5, 0.4, 0.4)
    run = make_run(swept(ratios) + swept(ratios, interpreter=FREE), [GIL, FREE])

    assert crossing(run) == (
        "threads compared with serial, disk: on 3.15 and 3.13t the order changes at no size from 64 KiB to 4 MiB: ahead at every size"
    )


def test_sizes_that_cannot_tell_decide_nothing(make_run, declare):
    """A size that cannot tell widens a crossing's bracket and makes none; if none can tell, there is no finding."""
    declare(sweep="size_bytes")

    assert "(between 256 KiB and 4 MiB)" in crossing(make_run(swept((4.0, 2.0, 1.0, 0.5), unsure=(2**20,)), [GIL]))
    assert crossing(make_run(swept((0.5, 0.5, 1.0, 0.5), unsure=(2**20,)), [GIL])).endswith(
        "ahead at 64 KiB, 256 KiB and 4 MiB, not decided at 1 MiB"
    )
    assert found(make_run(swept((1.0, 1.0, 1.0, 1.0), unsure=SIZES), [GIL])) == []


def test_a_size_is_too_close_only_if_its_ratio_is_known(make_run, declare):
    """A narrow interval around 1 is too close to decide; a wide one leaves the size open, on each interpreter."""
    declare(sweep="size_bytes")
    run = make_run(
        swept((0.5, 0.5, 1.0, 1.0), unsure=(2**20,)) + swept((1.0,) * 4, interpreter=FREE, unsure=SIZES), [GIL, FREE]
    )

    assert crossing(run) == (
        "threads compared with serial, disk: on 3.15 ahead at 64 KiB and 256 KiB, not decided at 1 MiB, "
        "too close to decide at 4 MiB; on 3.13t not decided at every size from 64 KiB to 4 MiB"
    )


def test_an_interval_without_figures_is_a_remark_in_the_evidence(make_run, declare):
    """The ends of an interval over more than a factor of 1,000 are no figures."""
    declare(sweep="n")
    cells = [cell("serial", [1.0, 1.0], setting=f"{n} items", n=n) for n in (10, 100)]
    cells += [cell("threads", noisy, setting=f"{n} items", n=n) for n, noisy in ((10, [2.0, 2.01]), (100, [1.0, 90.0]))]
    (one,) = found(make_run(cells, [GIL], launches=2))

    assert one.text.endswith("behind at 10, not decided at 100")
    assert one.evidence.endswith("at 10, 9.49, very uncertain, at 100")


def test_undecided_sizes_outside_a_crossing_are_named(make_run, declare):
    """A crossing claims nothing of the sizes beyond its bracket that cannot tell."""
    declare(sweep="size_bytes")

    assert crossing(make_run(swept((4.0, 0.5, 1.0, 1.0), unsure=SIZES[2:]), [GIL])).endswith(
        "(between 64 KiB and 256 KiB), then ahead, not decided at 1 MiB and 4 MiB"
    )
    assert crossing(make_run(swept((1.0, 2.0, 1.0, 0.5), unsure=(SIZES[0], SIZES[2])), [GIL])).endswith(
        "(between 256 KiB and 4 MiB), then ahead, not decided at 64 KiB"
    )


def test_curves_are_kept_apart_by_their_setting(make_run, declare):
    """Another file system is another curve, a size measured once is none, and fewer files of one size make no new one."""
    one = declare(sweep="size_bytes")
    cells = []
    for volume, sizes in (("disk", SIZES), ("tmpfs", SIZES[:2]), ("second", SIZES[:1])):
        for size in sizes:
            setting = f"{sized(size, 'size_bytes')}, {volume}"
            files = 6 if size == SIZES[-1] else 30
            cells.append(cell("serial", around(1.0), setting=setting, size_bytes=size, files=files))
            cells.append(cell("threads", around(0.5), setting=setting, size_bytes=size, files=files))

    assert [(curve.setting, len(curve.points)) for curve in curves(make_run(cells, [GIL]), one)] == [
        ("disk", 4),
        ("tmpfs", 2),
    ]


def test_where_settings_name_no_size_other_parameters_tell_curves_apart(make_run, declare):
    """Other parameters tell curves apart if the settings name no size."""
    one = declare(sweep="n")
    cells = []
    for n, kind in ((10, "a"), (100, "a"), (10, "b"), (1000, "c")):
        for series, level in (("serial", 1.0), ("threads", 0.5)):
            cells.append(cell(series, around(level), setting=f"{kind} {n}", n=n, kind=kind))

    assert [(curve.setting, len(curve.points)) for curve in curves(make_run(cells, [GIL]), one)] == [("", 2)]


def test_a_setting_may_word_its_size_in_any_way(make_run, declare):
    """The part of the setting in which two sizes differ is the size's; the other parts name the curve."""
    one = declare(sweep="n")
    cells = []
    for n in (100, 10_000):
        for kind, level in (("flat", 2.0), ("nested", 0.5)):
            for series, value in (("serial", 1.0), ("threads", level)):
                cells.append(cell(series, around(value), setting=f"{n} items, {kind}", n=n, kind=kind))
    run = make_run(cells, [GIL])

    assert [curve.setting for curve in curves(run, one)] == ["flat", "nested"]
    assert [text.text for text in found(run)] == [
        "threads compared with serial, flat: on 3.15 the order changes at no size from 100 to 10,000: behind at every size",
        "threads compared with serial, nested: on 3.15 the order changes at no size from 100 to 10,000: ahead at every size",
    ]


def test_curves_that_no_setting_tells_apart_have_the_names_of_their_parameters(make_run, declare):
    """Where no part of the setting is the size's alone, the parameters that differ between the curves name them."""
    one = declare(sweep="n")
    cells = [
        cell(series, around(level), setting=f"{kind} {n}", n=n, kind=kind, depth=1)
        for n in (10, 100)
        for kind in ("a", "b")
        for series, level in (("serial", 1.0), ("threads", 0.5))
    ]

    assert [(curve.setting, len(curve.points)) for curve in curves(make_run(cells, [GIL]), one)] == [
        ("kind a", 2),
        ("kind b", 2),
    ]


def test_findings_go_into_the_json(make_run, declare):
    """The JSON has findings after the verdicts, with the claim and the advice."""
    declare(claim())
    exported = run_to_json(make_run([cell("serial", around(1.0)), cell("threads", around(0.5))], [GIL]))

    first, second = exported["findings"]
    assert (first["experiment"], first["claim"], first["advice"]) == ("paper", "paper/quicker", "Use threads.")
    assert second["claim"] == ""
    assert exported["skipped"] == []


def test_interpreters_in_a_row_are_a_span(make_run):
    """Three or more interpreters of a kind without a gap are a span; others are listed one by one."""
    versions = [make_interpreter(f"3.{minor}.0") for minor in (12, 13, 14, 15)]
    run = make_run([cell("serial", [1.0], FREE)], [*versions, FREE])

    assert spanned(run, ["3.12.0", "3.13.0", "3.14.0", "3.13.5t"]) == "3.12 to 3.14 and 3.13t"
    assert spanned(run, ["3.12.0", "3.13.0", "3.15.0"]) == "3.12, 3.13 and 3.15"
    assert spanned(run, ["native"]) == ""


def test_small_ratios_and_sizes_keep_their_digits():
    """A hundredth is not shown as 0, and bytes have the unit that fits."""
    assert [number(value) for value in (0.00329, 0.0, 0.5)] == ["0.0033", "0.00", "0.50"]
    assert [sized(value, "size_bytes") for value in (512, 2**16, 500 * 2**10, 3 * 2**20)] == [
        "512 B",
        "64 KiB",
        "500 KiB",
        "3 MiB",
    ]
    assert sized(1000, "n") == "1,000"


def test_a_gil_that_came_back_is_told_with_what_brought_it(make_run):
    """The cells of a free-threaded interpreter that ran with the GIL on are named; those of others are not."""
    free, stock = make_interpreter("3.13.5", free_threaded=True), make_interpreter("3.13.0")
    labels = [("serial", free.id), ("serial, hiredis", free.id), ("serial, hiredis", stock.id)]
    cells = [(make_cell("redis-set", label, key), {"requests_per_s": [[1.0], [1.1]]}) for label, key in labels]
    run = make_run(cells, [stock, free], launches=2)
    for result in run.results.values():
        for one in result.launches:
            one.launch.facts["gil_enabled"] = "hiredis" in result.cell.label or result.cell.interpreter == stock.id

    told = [one for one in findings(run, []) if "GIL of" in one.text]

    assert [(one.experiment, one.evidence) for one in told] == [("redis-set", "serial, hiredis ran with the GIL on")]
    assert "3.13t" in told[0].text
    assert told[0].advice
