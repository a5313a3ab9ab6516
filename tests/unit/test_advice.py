"""Advice without launches: the names of functions, the verdict, and the size at which a pool pays."""

import math
import re
from dataclasses import replace

import pytest

from headway.advice import break_even
from headway.advice.break_even import find_size, find_tasks, start_s
from headway.advice.cores import predict
from headway.advice.examined import Function, Refusal
from headway.advice.holds import Holds, Spot
from headway.advice.observing import observed
from headway.advice.target import check_names, parse_target, with_inputs, with_json
from headway.advice.values import Advice, BreakEven, Contender
from headway.advice.verdict import decide
from headway.errors import UsageError
from headway.lab.design import Cell, Variant
from headway.lab.kept.headers import StoredLaunch
from headway.lab.kept.launched import Launch
from headway.lab.kept.results import CellResult
from headway.lab.stats import Interval

FUNCTION = Function(
    kind="plain",
    file="/app.py",
    line=1,
    inputs=1,
    first_s=0.01,
    call_s=0.01,
    cpu_share=1.0,
    cores=1.0,
    input_bytes=4,
    result_bytes=4,
    pickle_s=1e-5,
    result="int",
    differs=False,
)
SPOT = Spot(at="re.py:185", by="app.py:17", call="re.Pattern.sub", calls=3, share=0.97, released=0.0, longest_s=0.24)
HOLDS = Holds(held=0.97, computes_without=0.03, waits=0.0, call_s=0.01, spots=(SPOT,), whole=True)


def interval(value, spread=0.02):
    return Interval(value, value * (1 - spread), value * (1 + spread), "paired t")


def contender(model, speed_up, *, workers=2, spread=0.02, interpreter="3.13"):
    words = model if model == "serial" else f"{workers} {model.removesuffix('-forkserver')}"
    return Contender(
        interpreter,
        model,
        words,
        workers,
        5,
        interval(0.01 / speed_up, spread),
        None if model == "serial" else interval(speed_up, spread),
        start_s=0.05,
    )


def once(model, speed_up):
    return replace(contender(model, speed_up), speed_up=Interval(speed_up, 0.0, math.inf, "one launch"))


def advice(verdict, *contenders):
    """Return advice on a function, with nothing measured but its holds and those contenders."""
    return Advice(
        target="app:resize",
        run="r",
        interpreter="3.13",
        cores=2,
        tasks=10,
        function=FUNCTION,
        verdict=verdict,
        contenders=contenders,
        refusals=(),
        break_even=(),
        holds=HOLDS,
        holds_why="",
        lags=(),
        predicted=(),
        server=(),
        notes=(),
        code="",
        test="",
        spent_s=1.0,
    )


def between(*contenders):
    """Return the ratio of each contender's time to each other one's."""
    found = {}
    for one in contenders:
        for other in contenders:
            ratio = one.call_s.value / other.call_s.value
            spread = (one.call_s.high / one.call_s.value) - 1
            found[one.model, other.model] = interval(ratio, spread)
    return found


def verdict(*contenders, function=FUNCTION, holds=HOLDS, refusals=(), pays=(), elsewhere=()):
    return decide(contenders, elsewhere, between(*contenders), function, holds, refusals, pays, "3.13")


# ---------------------------------------------------------------- names


def test_a_function_of_a_module_a_file_and_a_package(tmp_path, monkeypatch):
    """A target has the name to import the function by, and the folder for the import path."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    (tmp_path / "app.py").write_text("def resize(): pass\ndef _own(): pass\n")
    package = tmp_path / "src" / "pack"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "inner.py").write_text("def a(): pass\ndef b(): pass\n")

    by_module = parse_target("app:resize", cwd=tmp_path)
    by_file = parse_target("app.py", cwd=tmp_path)
    inner = parse_target("src/pack/inner.py:b", cwd=tmp_path)

    assert (by_module.module, by_module.name, by_module.paths) == ("app", "resize", (str(tmp_path),))
    assert (by_file.module, by_file.name) == ("app", "resize")
    assert (inner.module, inner.name, inner.folder) == ("pack.inner", "b", tmp_path / "src")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("app", "names no function"),
        ("nothere.py:f", "there is no file nothere.py"),
        ("loop.py:f", "there is no file loop.py"),
        ("two.py", "has 2 functions: a, b"),
        ("none.py", "defines no function"),
        ("broken.py", "cannot be read as Python"),
        ("app:not a name", "is not the name of a function"),
        ("a b:f", "is not the name of a module"),
        ("my.dots.py:f", "cannot be imported"),
    ],
)
def test_what_names_no_function_is_told(text, words, tmp_path):
    """A text that names no function gives an error that says what was wrong, and a hint."""
    (tmp_path / "two.py").write_text("def a(): pass\nasync def b(): pass\n")
    (tmp_path / "none.py").write_text("x = 1\n")
    (tmp_path / "broken.py").write_text("def (:\n")
    (tmp_path / "my.dots.py").write_text("def f(): pass\n")
    (tmp_path / "loop.py").symlink_to("loop.py")
    with pytest.raises(UsageError, match=words) as raised:
        parse_target(text, cwd=tmp_path)
    assert raised.value.hint


def test_inputs_are_named_or_json(tmp_path):
    """Inputs are a name or JSON, and anything else is an error."""
    target = parse_target("app:resize", cwd=tmp_path)
    assert with_inputs(target, ":examples").inputs["module"] == "app"
    assert with_inputs(target, "data:examples").inputs["name"] == "examples"
    assert with_json(target, '[1, "two"]').inputs == {"kind": "json", "value": [1, "two"]}
    for bad in ("{", "3", '"x"'):
        with pytest.raises(UsageError):
            with_json(target, bad)
    with pytest.raises(UsageError):
        with_inputs(target, "examples")


# ---------------------------------------------------------------- sizes


@pytest.mark.parametrize(
    ("source", "function", "inputs", "words"),
    [
        ("def resize(): pass", "app:resise", "", "there is no such function: app has no resise; did you mean resize?"),
        ("def resize(): pass", "app:resize", "app:lots", "its inputs cannot be created: app has no lots"),
        ("def resize(): pass", "app:resize", "", ""),
        ("from os.path import *", "app:join", "", ""),
        ("globals()['re' + 'size'] = len", "app:resize", "", ""),
        ("def resize(: pass", "app:resise", "", ""),
        ("def resize(): pass", "absent:resise", "", ""),
    ],
)
def test_a_wrong_name_is_told_without_running_the_module(tmp_path, source, function, inputs, words):
    """A name that is nowhere in the module's source is told at once, unless the module may have it all the same."""
    (tmp_path / "app.py").write_text(source + "\n")
    target = parse_target(function, cwd=tmp_path)
    target = with_inputs(target, inputs) if inputs else target
    if not words:
        check_names(target)
        return
    with pytest.raises(UsageError, match=re.escape(words)):
        check_names(target)
    with pytest.raises(UsageError, match=re.escape(words)), observed(target, "/not/run", "", print):
        pass


# ---------------------------------------------------------------- the verdict


def test_the_quickest_model_is_named_with_its_interval():
    """The verdict has the model's size and number of tasks from which it pays, and why threads gain nothing."""
    found = verdict(
        contender("serial", 1),
        contender("threads", 1),
        contender("processes-forkserver", 1.8),
        pays=[BreakEven("processes-forkserver", interval(0.0008), interval(39.5))],
    )
    assert (found.outcome, found.model) == ("faster", "processes-forkserver")
    assert found.sentence == (
        "2 processes: 1.80 [1.76-1.84] times as fast as serial calls; it pays from 800 us per task and from 40 tasks on"
    )
    assert any(
        "the function holds the GIL for 97% of its time" in line and "app.py:17 re.Pattern.sub" in line
        for line in found.lines
    )
    assert any("fewer than 40 calls" in line for line in found.lines)


def test_of_models_that_are_no_different_the_simpler_one():
    """The simpler of two models is advised if their whole interval is within 5 %."""
    found = verdict(
        contender("serial", 1), contender("threads", 1.79, spread=0.01), contender("processes-forkserver", 1.8)
    )
    assert found.model == "threads"
    assert found.runner_up == "2 processes"


def test_a_quicker_model_is_not_given_up_for_a_simpler_one_that_is_slower():
    """A simpler model is not advised if it is slower by more than 5 %."""
    found = verdict(contender("serial", 1), contender("threads", 1.5), contender("processes-forkserver", 1.8))
    assert found.model == "processes-forkserver"


def test_nothing_is_faster():
    """Without a faster model, serial is advised, and there is no runner-up."""
    found = verdict(contender("serial", 1), contender("threads", 0.9), contender("processes-forkserver", 0.5))
    assert (found.outcome, found.model) == ("no difference", "serial")
    assert found.runner_up == ""


def test_what_no_code_can_be_given_for_is_told_and_not_advised():
    """Sub-interpreters of 3.12 and 3.13, which have no pool in the standard library, are mentioned and not advised."""
    one = [contender("serial", 1), contender("interpreters", 1.9), contender("processes-forkserver", 1.5)]
    found = decide(
        one, (), between(*one), FUNCTION, HOLDS, (), (), "3.13", without={"interpreters": "it came with 3.14"}
    )
    assert found.model == "processes-forkserver"
    assert any(line.startswith("2 interpreters: 1.90") and "it came with 3.14" in line for line in found.lines)


def test_one_launch_decides_nothing():
    """A model that was measured once is neither advised nor ruled out, whatever its figure, and has no interval."""
    words_of = {
        26.6: "2 processes may be faster than serial calls (26.6 in one launch",
        0.3: "the figure of 2 processes (0.3",
        0.02: "the figure of 2 processes (0.02",
    }
    for speed_up, words in words_of.items():
        found = verdict(contender("serial", 1), once("processes-forkserver", speed_up))
        assert (found.outcome, found.model, found.speed_up) == ("unsure", "serial", None)
        assert words in found.sentence
        assert "no interval" in found.sentence
        assert "includes 1" not in found.sentence


def test_two_launches_far_apart_rule_nothing_out():
    """An interval that is too wide to be shown, or holds large gains, does not support that no model is faster."""
    wide = replace(contender("processes-forkserver", 0.4), speed_up=Interval(0.4, 0.001, 160, "paired t"))
    assert verdict(contender("serial", 1), wide).outcome == "unsure"
    shown = replace(wide, speed_up=Interval(0.68, 0.17, 2.61, "paired t"))
    assert verdict(contender("serial", 1), shown).outcome == "unsure"
    narrow = replace(wide, speed_up=Interval(0.4, 0.2, 1.3, "paired t"))
    assert verdict(contender("serial", 1), narrow).outcome == "no difference"


def test_threads_of_a_function_that_holds_the_gil_are_not_proposed_for_an_undecided_gain():
    """The profile rules threads out, whether one launch or a wide interval shows a gain."""
    for one in (once("threads", 1.73), contender("threads", 1.3, spread=0.6)):
        found = verdict(contender("serial", 1), one)
        assert (found.outcome, found.model) == ("no difference", "serial")
        assert any("the function holds the GIL for 97% of its time" in line for line in found.lines)
        assert not any("--budget" in line for line in found.lines)


def test_a_decided_gain_is_advised_before_a_larger_one_that_is_not_decided():
    """Only a model whose whole interval is a gain is advised."""
    wide = contender("threads", 2.0, spread=0.6)
    found = verdict(contender("serial", 1), wide, contender("processes-forkserver", 1.5), holds=None)
    assert (found.outcome, found.model) == ("faster", "processes-forkserver")
    assert any("2 threads: perhaps a gain of" in line for line in found.lines)


def test_sending_a_call_that_takes_no_longer_than_that_gains_nothing():
    """One launch in processes rules them out if pickling takes as long as the call; alone it rules nothing out."""
    serial, pool = contender("serial", 1), once("processes-forkserver", 0.3)
    short = replace(FUNCTION, call_s=4e-6)
    assert verdict(serial, pool, function=short).outcome == "no difference"
    assert verdict(serial, once("processes-forkserver", 1.1), function=short).outcome == "unsure"
    assert verdict(serial, pool).outcome == "unsure"
    for call_s, outcome in ((4e-6, "no difference"), (4e-5, "unsure")):
        tiny = replace(FUNCTION, call_s=call_s, pickle_s=0.0)
        assert verdict(serial, once("threads", 0.15), function=tiny, holds=None).outcome == outcome


def test_fewer_processes_than_threads_prove_nothing_where_calls_wait():
    """A server that serves 8 calls at a time is no reason for processes, if threads were measured with 28 at a time."""
    pools = contender("threads", 1.2, workers=28), contender("processes-forkserver", 5, workers=8)
    found = verdict(contender("serial", 1), *pools, function=replace(FUNCTION, cpu_share=0.05), holds=None)
    assert (found.outcome, found.model) == ("unsure", "serial")
    assert found.sentence.endswith("compare with --workers 8")
    assert verdict(contender("serial", 1), *pools, holds=None).outcome == "faster"
    # Threads that take turns at the GIL would gain nothing by fewer at a time either.
    waits = replace(HOLDS, held=1.0, computes_without=0.0)
    found = verdict(contender("serial", 1), *pools, function=replace(FUNCTION, cpu_share=0.05), holds=waits)
    assert (found.outcome, found.model) == ("faster", "processes-forkserver")
    many = contender("threads", 21, workers=32, spread=1.0)
    found = verdict(contender("serial", 1), many, pools[1], function=replace(FUNCTION, cpu_share=0.05), holds=None)
    assert (found.outcome, found.model, found.runner_up) == ("unsure", "serial", "8 processes")
    assert found.sentence.startswith(
        "perhaps 32 threads (about 21.0), else 8 processes: 5.00 [4.90-5.10] times as fast"
    )


def test_processes_do_not_scale_beyond_the_one_that_gives_them_their_calls():
    """A call of 10 ms whose arguments and result take 2 ms of pickling is at most 5 times as fast, on any machine."""
    (*_, free), _ = predict(HOLDS, [contender("processes-forkserver", 1.8)], 2, 0.0)
    (*_, bound), _ = predict(HOLDS, [contender("processes-forkserver", 1.8)], 2, 0.002)
    assert free.speed_up > 10
    assert bound.speed_up == pytest.approx(5)
    assert bound.high == pytest.approx(5)


def test_calls_that_take_turns_at_a_lock_of_their_own_gain_nothing_on_more_cores():
    """Threads that compute without the GIL and gain nothing here have no prediction, and a sentence tells of a limit."""
    free = replace(HOLDS, held=0.05, computes_without=0.95, waits=0.0)
    found, limits = predict(free, [contender("threads", 1.0)], 2, 0.0)
    assert found == ()
    assert [one.startswith("2 threads: 1.00 times, where its time without the GIL allows") for one in limits] == [True]

    found, limits = predict(free, [contender("threads", 1.9)], 2, 0.0)
    assert [one.cores for one in found] == [4, 8, 32]
    assert limits == ()
    assert predict(free, [contender("threads", 1.9, spread=5.0)], 2, 0.0) == ((), ())


def test_a_wide_interval_is_no_nothing():
    """A model with a wide interval is not said to gain nothing, but threads that must take turns are."""
    wide = contender("threads", 0.99, spread=0.5)
    found = verdict(contender("serial", 1), wide, contender("processes-forkserver", 1.8), holds=None)
    assert any("2 threads show no clear gain" in line for line in found.lines)
    assert verdict(contender("serial", 1), wide, holds=None).outcome == "unsure"
    assert verdict(contender("serial", 1), wide).outcome == "no difference"


def test_what_was_measured_once_is_said_to_be():
    """A model with one launch has no interval, and the advice says so."""
    found = verdict(contender("serial", 1), once("threads", 1.5), contender("processes-forkserver", 1.8), holds=None)
    assert "2 threads: 1.50 times (one launch only: no interval)" in found.lines


def test_tasks_alone_are_said_in_words():
    """The number of tasks stands alone where no size is known."""
    pays = [BreakEven("processes-forkserver", None, interval(2.5), "the time was up")]
    found = verdict(contender("serial", 1), contender("processes-forkserver", 1.8), pays=pays)
    assert found.sentence.endswith("; it pays from 3 tasks on")


def test_what_cannot_be_told_is_not_said_as_if_it_were():
    """An interval that contains 1 is no gain, so the model may be named but is not advised."""
    found = verdict(contender("serial", 1), contender("threads", 1.3, spread=0.6), holds=None)
    assert (found.outcome, found.model, found.words) == ("unsure", "serial", "serial")
    assert "2 threads may be faster than serial calls (1.30 [" in found.sentence
    assert "--budget" in found.sentence


def test_smaller_inputs_would_flip_it_and_larger_ones_too():
    """The verdict names the size from which a pool pays, for smaller inputs and for larger ones."""
    pays = [BreakEven("processes-forkserver", interval(0.008), interval(3))]
    faster = verdict(contender("serial", 1), contender("processes-forkserver", 1.2), pays=pays)
    slower = verdict(
        contender("serial", 1),
        contender("processes-forkserver", 0.5),
        function=replace(FUNCTION, call_s=0.001),
        pays=pays,
    )
    assert any("smaller inputs" in line for line in faster.lines)
    assert any("larger inputs" in line for line in slower.lines)


def test_the_module_in_the_way_and_side_effects_are_told():
    """A verdict for another model also names the module in the way, and side effects."""
    found = verdict(
        contender("serial", 1),
        contender("threads", 1.8),
        function=replace(FUNCTION, effects=(("globals", "app.COUNT is bound anew"),)),
        refusals=[
            Refusal("3.13", "interpreters", "the module numpy._core does not load in a sub-interpreter", "numpy._core")
        ],
    )
    assert any("numpy._core" in line for line in found.lines)
    assert any("side effects (globals)" in line for line in found.lines)


def test_another_interpreter_is_told_beside_it():
    """The quickest model of another interpreter is mentioned."""
    found = verdict(
        contender("serial", 1),
        contender("threads", 1),
        elsewhere=[contender("serial", 0.9, interpreter="3.14t"), contender("threads", 1.9, interpreter="3.14t")],
    )
    assert any(line.startswith("on 3.14t, 2 threads: 1.90") for line in found.lines)


# ---------------------------------------------------------------- where a pool pays


def pooled(overhead_s, workers=2):
    """Return a launch, as `find_size` takes it, of a pool whose tasks cost `overhead_s` in addition."""

    def launch(variant, _block):
        samples = {}
        for place, size_s in enumerate(variant.params["sizes_s"]):
            samples[f"serial_{place}_s"] = [size_s]
            samples[f"pooled_{place}_s"] = [(size_s + overhead_s) / workers]
        return Launch(status="ok", samples=samples)

    return launch


def sized(sizes_s):
    return Variant(series="processes", workload="x", model="processes-forkserver", params={"sizes_s": list(sizes_s)})


@pytest.mark.parametrize("overhead_s", [50e-6, 0.4e-3, 3e-3])
def test_the_size_where_a_pool_pays_is_found(overhead_s):
    """A pool of two workers breaks even where a task takes as long as its overhead."""
    size, why = find_size("processes", sized, FUNCTION, pooled(overhead_s))
    assert why == ""
    assert size.value == pytest.approx(overhead_s, rel=0.02)


def test_what_the_function_takes_longer_than_its_stand_in_is_added():
    """The time that the function takes beyond its stand-in is added.

    The stand-in is twice as quick with two workers. The function is not, because its workers wait for each other.
    """
    size, _ = find_size("threads", sized, FUNCTION, pooled(100e-6), measured=0.8)
    assert size.value == pytest.approx(100e-6 / (1 - 2 * (0.8 - 0.505 - 0.1)), rel=0.05)
    assert find_size("threads", sized, FUNCTION, pooled(100e-6), measured=1.1)[0] is None


def test_where_no_size_pays_it_says_so():
    """Larger sizes are tried twice, and then the answer is that two launches found no size, which rules none out."""
    size, why = find_size("threads", sized, FUNCTION, pooled(0.0, workers=1))
    assert size is None
    assert why == "not found: in 2 launches, threads were not faster for tasks of up to 205 ms"


def test_a_failed_launch_of_the_stand_in_is_its_reason():
    """The reason of a launch that failed is the result, and no size is made up."""
    size, why = find_size("threads", sized, FUNCTION, lambda _variant, _block: Launch(reason="killed"))
    assert (size, why) == (None, "killed")


@pytest.mark.parametrize("fails_from", [0, 1])
def test_a_launch_that_the_budget_s_end_cuts_off_is_told_as_that(fails_from):
    """A launch gets the time that is left, so its failure after that says nothing of the stand-in."""
    answer = pooled(100e-6)

    def launch(variant, block):
        return answer(variant, block) if block < fails_from else Launch(reason="killed after its limit of 2 s")

    left = iter([True] * fails_from + [False] * 9)
    size, why = find_size("threads", sized, FUNCTION, launch, time_left=lambda: next(left))
    assert (size, why) == (None, "not known, because the time was up")


def result(model, call_s, start_s, longer_s):
    cell = Cell("advise", Variant(series=model, workload="x", model=model), "free", "3.13", "advise")
    samples = {"call_s": [call_s], "pool_start_s": [start_s], "first_longer_s": [longer_s]}
    return CellResult(cell, tuple(StoredLaunch(cell.key, block, Launch("ok", "", samples)) for block in range(3)))


def test_the_number_of_tasks_that_pay_for_the_start():
    """A pool that costs 0.1 s to start and 0.05 s in the first sample, and gains 5 ms a call, needs 30 calls."""
    serial, pool = result("serial", 0.01, 1e-9, 0.0), result("processes", 0.005, 0.1, 0.05)
    tasks, why = find_tasks(pool, serial)
    assert why == ""
    assert tasks.value == pytest.approx(30)
    assert find_tasks(result("processes", 0.011, 0.1, 0.0), serial)[0] is None
    for samples in (serial.ok[0].launch.samples, pool.ok[0].launch.samples):
        del samples["first_longer_s"]  # as where imports take no time that counts
    assert start_s(pool.ok[0].launch.samples, serial.ok[0].launch.samples) == 0.1


def test_shares_without_a_look_at_the_gil():
    """Without a trace of the GIL, all computing counts as holding it."""
    assert break_even.parts_of(HOLDS, FUNCTION)["shares"] == {"held": 0.97, "released": 0.03, "asleep": 0.0}
    assert break_even.parts_of(None, replace(FUNCTION, cpu_share=0.25))["shares"]["asleep"] == 0.75
