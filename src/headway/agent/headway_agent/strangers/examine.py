"""Answers cheap questions about a user's function in a fresh process: if it imports, pickles, returns; what it changes.

Protocol: the job is one JSON object on standard input. Answers are JSON objects, one a line, on the descriptor named by
`argv[1]`. Before a stage: {"begun": STAGE}, so that the stage in which a process ended or hung is known; before the first
call with each input also "which", its number. After a stage: {"stage": STAGE, ...} with its results. An exception of the user's code gives {"error": ..., "where": ...} for its
stage, and ends the process.

`what` of a job is one of:

- "function": all stages.
- "module": only looks for the module, and for that of the inputs; runs none of their code.
- "subinterpreter": only imports the module in a sub-interpreter.
- "thread": calls the function once in a thread other than the main thread.
- "holds": measures how the function holds the GIL (see `holds`).
"""

import json
import os
import sys
import time
import traceback

from .. import proc
from .supply import Supply, dumped
from .talk import Talk
from .timed import Clock, computing

__all__ = ["main"]

_CALLS_S = 0.4
_MOST_CALLS = 20
_LOCKS_S, _LONG_S = 0.1, 2.0
"""The time for calls with watched locks, and the mean time from which on no further call is made for them."""
_MOST_PICKLES = 32
_OURS = os.path.dirname(os.path.abspath(__file__))


class _FailedError(Exception):
    """A failure of the user's code in a stage."""


def _where(error):
    """Return the innermost location outside this package and importlib: "app.py:17"."""
    found = ""
    for frame in traceback.extract_tb(error.__traceback__):
        if not frame.filename.startswith((_OURS, "<frozen")) and "/importlib/" not in frame.filename:
            found = "%s:%d" % (frame.filename, frame.lineno)
    return found


def _print_users_part(error):
    """Print a traceback without our own frames above the user's frames."""
    frames = traceback.extract_tb(error.__traceback__)
    while frames and (frames[0].filename.startswith((_OURS, "<frozen")) or "/importlib/" in frames[0].filename):
        del frames[0]
    if frames:
        sys.stderr.write("Traceback (most recent call last):\n%s" % "".join(traceback.format_list(frames)))
    sys.stderr.write("".join(traceback.format_exception_only(type(error), error)))


def _said(error):
    text = str(error).strip().splitlines()
    return "%s: %s" % (type(error).__name__, text[0][:300]) if text else type(error).__name__


def _distributions(names):
    """Return {distribution: version} of the modules with these names, and those that came from no index, sorted."""
    try:
        from importlib.metadata import distributions
    except ImportError:
        return {}, []
    folders = {}
    for one in distributions():
        for file in one.files or ():
            top = file.parts[0]
            if (
                top not in ("..", ".")
                and not top.endswith((".dist-info", ".egg-info", ".pth"))
                and top != "__pycache__"
            ):
                if folders.setdefault(str(one.locate_file(top)), one) is not one:
                    # Several distributions share this folder: they are told apart by their files.
                    folders[str(one.locate_file(file))] = one
    found, direct = {}, set()
    for name in names:
        at = getattr(sys.modules.get(name), "__file__", None) or ""
        if name.partition(".")[0] == "headway_agent":
            continue
        while len(at) > 1:
            if at in folders:
                one = folders[at]
                found[one.metadata["Name"]] = one.version
                # Packages of conda may have the file, too, with the folder in which they were built.
                if one.read_text("direct_url.json") and (one.read_text("INSTALLER") or "").strip() != "conda":
                    direct.add(one.metadata["Name"])
                break
            at = os.path.dirname(at)
    return found, sorted(direct)


def _folder_of(module):
    """Return the folder from which another interpreter can import a module's package; "" for an installed one."""
    from .effects import is_installed

    top = sys.modules.get(module.partition(".")[0])
    file = getattr(top, "__file__", None) or ""
    if not file.endswith(".py") or is_installed(file):
        return ""
    folder = os.path.dirname(os.path.abspath(file))
    return os.path.dirname(folder) if hasattr(top, "__path__") else folder


def _import(job, talk):
    from .blockers import LoadWatch
    from .target import MissingNameError, find

    talk.begin("import")
    before = set(sys.modules)
    gil_before = proc.gil_enabled()
    begun_ns = time.perf_counter_ns()
    with LoadWatch() as watch:
        try:
            function = find(job["target"])
        except MissingNameError as error:
            talk.give("function", error=str(error), about="names")
            raise _FailedError from None
        except BaseException as error:
            talk.give(
                "import",
                error=_said(error),
                where=_where(error),
                failed=watch.failed,
                missing=getattr(error, "name", None),
            )
            raise _FailedError from error
    import_s = (time.perf_counter_ns() - begun_ns) / 1e9
    new = set(sys.modules) - before
    extensions = sorted(
        name
        for name in new
        if type(getattr(sys.modules.get(name), "__loader__", None)).__name__ == "ExtensionFileLoader"
    )
    distributions, direct = _distributions(new)
    talk.give(
        "import",
        import_s=import_s,
        gil_before=gil_before,
        gil_after=proc.gil_enabled(),
        switched_by=watch.switched,
        extensions=extensions,
        distributions=distributions,
        direct=direct,
        folder=_folder_of(job["target"]["module"]),
    )
    return function


def _pickle_of(value):
    """Return (bytes, seconds there and back, error): the cost of sending a value to another process."""
    from . import calls

    try:
        return calls.sent(value) + ("",)
    except BaseException as error:
        return 0, 0.0, _said(error)


def _function(job, talk):
    function = _import(job, talk)
    from . import calls
    from .effects import Effects
    from .locks import Locks
    from .target import InputsError, MissingNameError, calls_of, class_of_method, maker_of

    talk.begin("function")
    if not callable(function):
        talk.give("function", error="it is %s, which cannot be called" % type(function).__name__, about="names")
        raise _FailedError
    kind = calls.kind_of(function)
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    # A pool sends the function with each call: by its name, or, of a method, with its object.
    own_bytes, own_s, own_error = _pickle_of(function)

    talk.begin("inputs")
    try:
        given, by_name, lost = calls_of(job["target"], function)
    except MissingNameError as error:
        talk.give("inputs", error=str(error), about="names")
        raise _FailedError from None
    except InputsError as error:
        is_method = error.about not in ("inputs", "pickled") and class_of_method(job["target"]) is not None
        talk.give("inputs", error=str(error), about="method" if is_method else error.about)
        raise _FailedError from None
    except BaseException as error:
        talk.give("inputs", error=_said(error), where=_where(error))
        raise _FailedError from error
    task, arguments = calls.task_of(function, kind, given)
    # The function itself goes with them, as the argument of another one or not; its size is told apart.
    pickles = [_pickle_of((args, kwargs) if kwargs else args) for args, kwargs in given[:_MOST_PICKLES]]
    sizes = [size for size, _, error in pickles if not error]
    talk.give(
        "inputs",
        count=len(given),
        by_name=by_name,
        made=maker_of(job["target"], function) is not None,
        lost=lost,
        bytes=max(sizes) if sizes else 0,
        pickle_s=sum(one for _, one, _ in pickles) / len(pickles),
        pickle_error=next((error for _, _, error in pickles if error), ""),
    )

    talk.begin("call")
    owner = class_of_method(job["target"])
    own = [given[0][0][0]] if owner is not None and given[0][0] else []
    supply = Supply(job["target"], function, given)
    # A change of an argument is told by its pickle, if it has one.
    effects = Effects(function, () if supply.has_copies else own)
    effects.begin()
    # A call that fails for another reason, with an instance, is no mistake of the inputs.
    is_bare = owner is not None and given[0][0] and not isinstance(given[0][0][0], owner)
    result, first = _timed_call(task, arguments[0], talk, about="method" if is_bare else "")
    if kind == calls.PLAIN and hasattr(result, "__next__") and hasattr(result, "send"):
        kind = calls.GENERATOR
        task, arguments = calls.task_of(function, kind, given)
        result, first = _timed_call(task, arguments[0], talk)
    elif kind == calls.PLAIN and hasattr(result, "__await__"):
        close = getattr(result, "close", None)
        if close is not None:
            close()
        kind = calls.ASYNC
        task, arguments = calls.task_of(function, kind, given)
        result, first = _timed_call(task, arguments[0], talk)
    talk.give(
        "function",
        kind=kind,
        file=code.co_filename if code else "",
        line=code.co_firstlineno if code else 0,
        qualified=getattr(function, "__qualname__", ""),
        own_loop=calls.own_loop_of(function) if kind == calls.PLAIN else "",
        pickle_error=own_error,
        bytes=own_bytes,
        pickle_s=own_s,
    )
    talk.give("call", first_s=first.own_s, result=type(result).__name__)
    effects.called_once()
    supply.called_once(task, arguments, first, effects.apart)
    _again(talk, effects, task, supply, result, lambda: Locks(function, own))


def _timed_call(task, args, talk, about="", which=0):
    """Call the function; return its result and its times. `which` is the number of the input, from 1."""
    pid = os.getpid()
    clock = Clock()
    try:
        result = task(*args)
    except BaseException as error:
        talk.give("call", error=_said(error), where=_where(error), about=about, which=which)
        raise _FailedError from error
    finally:
        if os.getpid() != pid:
            # A child that the call has forked has returned from the call, too, and must not go on like its parent.
            talk.give("call", error="it forks, and its child comes back from the call, too")
            os._exit(0)
    return result, clock.took()


def _again(talk, effects, task, supply, first_result, watch):
    """Repeat the call: with the same arguments, to compare results; with all inputs, to time the calls; for its locks.

    `supply` has the arguments of each call. `watch` begins to watch the locks.
    """
    talk.begin("again")
    size, pickle_s, pickle_error = _pickle_of(first_result)
    first_dumped = dumped(first_result)
    _check(supply.used_up(), talk)
    args = _next(supply, 0, talk)
    effects.unseen(proc.forget_peak)  # it writes to a file
    before_bytes = proc.resident("self")[0]
    result, second = _timed_call(task, args, talk)
    # The comparisons of `effects` need memory of their own.
    peak_bytes = max(0, proc.max_rss_bytes() - before_bytes)
    seen = effects.end()
    if effects.left_processes:
        talk.give("again", error="it leaves a process behind with each call", about="leaves")
        raise _FailedError
    differs = _differ(result, first_result, first_dumped)
    if differs:
        _check(supply.used_up(second), talk)
    if differs and supply.may_have_been():
        # With new arguments the result is that of the first call: the arguments have made the difference.
        result, renewed = _timed_call(task, supply.renewed(), talk)
        if not _differ(result, first_result, first_dumped):
            supply.begin_new()
            differs, second = False, renewed
    if supply.changes:
        seen.append(["arguments", "changes its arguments: each sample has new ones"])
    returns_nothing = result is None and first_result is None
    del result, first_result
    times = [second]
    until_s = time.monotonic() + _CALLS_S
    while time.monotonic() <= until_s and len(times) < 1000 * _MOST_CALLS:
        args = _next(supply, len(times), talk)
        which = len(times) % supply.count + 1 if supply.count > 1 else 0
        if which and len(times) <= supply.count:
            talk.begin("again", which)
        result, took = _timed_call(task, args, talk, which=which)
        returns_nothing = returns_nothing and result is None
        del result
        times.append(took)
    wall_s = sum(one.wall_s for one in times)
    mean_s = wall_s / len(times)
    talk.give(
        "again",
        mean_s=mean_s,
        second_s=second.own_s,
        own_s=sum(one.own_s for one in times) / len(times),
        cpu_share=computing(times),
        cores=sum(one.cpu_s for one in times) / max(wall_s, 1e-9),
        result_bytes=size,
        peak_bytes=peak_bytes,
        result_pickle_s=pickle_s,
        result_pickle_error=pickle_error,
        differs=differs,
        returns_nothing=returns_nothing,
        effects=seen,
        changes_arguments=supply.changes,
        anew_s=supply.anew_s,
        locks=_taken(task, supply.next, watch) if mean_s < _LONG_S else [],
    )


def _next(supply, place, talk):
    """Return the arguments of a call by its place in a row of calls."""
    try:
        return supply.next(place)
    except (Exception, SystemExit) as error:  # of the user's function of inputs
        talk.give("again", error="its arguments cannot be made anew: %s" % _said(error), about="used up")
        raise _FailedError from error


def _check(used_up, talk):
    if used_up:
        talk.give("again", error=used_up, about="used up")
        raise _FailedError


def _differ(result, first_result, first_dumped):
    """Tell whether a result differs from the first one, which has this pickle."""
    try:
        # The pickles must differ, too: NaN, and objects without a value of their own, are not equal to themselves.
        return not bool(result == first_result) and first_dumped not in (None, dumped(result))
    except Exception:
        return False  # the comparison of arrays and the like gives no single bool


def _taken(task, next_arguments, watch):
    """Return the locks that calls take (`Locks.over`); none if the function does not bear that they are watched."""
    try:
        locks = watch()
        wall_ns, until_s = 0, time.monotonic() + _LOCKS_S
        for place in range(_MOST_CALLS if locks.watched else 0):
            args = next_arguments(place)
            begun_ns = time.perf_counter_ns()
            task(*args)
            wall_ns += time.perf_counter_ns() - begun_ns
            if time.monotonic() > until_s:
                break
        return locks.over(wall_ns)
    except BaseException:
        return []


def _module(job, talk):
    """Look for the module on the import path."""
    from .target import missing_module

    talk.begin("module")
    talk.give("module", missing=missing_module(job["target"]))


_IN_SUBINTERPRETER = """
import json, os, sys
sys.path[:] = {path!r}
answer = {{}}
from headway_agent.strangers.blockers import LoadWatch, refused_by
with LoadWatch() as watch:
    try:
        from headway_agent.strangers.target import named
        named({module!r}, {name!r}, {cwd!r})
    except BaseException as error:
        text = str(error).strip().splitlines()
        answer = dict(error="%s: %s" % (type(error).__name__, text[0][:300] if text else ""), refused_by=refused_by(error, watch))
answer["failed"] = watch.failed
os.write({fd}, json.dumps(answer).encode())
"""


def _subinterpreter(job, talk):
    """Import the module in a sub-interpreter with its own GIL; report which module refuses."""
    from .. import subinterpreters

    target = job["target"]
    talk.begin("subinterpreter")
    reader, writer = os.pipe()
    script = _IN_SUBINTERPRETER.format(
        path=sys.path, module=target["module"], name=target["name"], cwd=target["cwd"], fd=writer
    )
    problem = ""
    try:
        subinterpreters.run(subinterpreters.create(), script)
    except BaseException as error:
        problem = _said(error)
    os.set_blocking(reader, False)
    try:
        answer = json.loads(os.read(reader, 1 << 20))
    except (BlockingIOError, ValueError):
        answer = {"error": problem or "it said nothing", "refused_by": ""}
    talk.give("subinterpreter", **answer)


def _thread(job, talk):
    """Call the function once outside the main thread."""
    import threading

    from . import calls
    from .target import find, inputs_of

    talk.begin("thread")
    function = find(job["target"])
    task, arguments = calls.task_of(function, job["kind"], inputs_of(job["target"], function))
    problems = []

    def once():
        try:
            task(*arguments[0])
        except BaseException as error:
            problems.append(_said(error))

    thread = threading.Thread(target=once)
    thread.start()
    thread.join()
    talk.give("thread", error=problems[0] if problems else "")


_WHAT = {"function": _function, "module": _module, "subinterpreter": _subinterpreter, "thread": _thread}


def main():
    """Run the process: exit code 0 if all questions were answered, 1 if the user's code failed a stage."""
    code = 1
    try:
        job = json.load(sys.stdin)
        talk = Talk(int(sys.argv[1]), job.get("stacks_after_s", 0))
        what = job["what"]
        if what == "holds":
            from .holds import look

            look(job, talk)
        else:
            _WHAT[what](job, talk)
        code = 0
    except _FailedError as failed:
        if failed.__cause__ is not None:
            _print_users_part(failed.__cause__)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass  # the function has closed the stream
        os._exit(code)
