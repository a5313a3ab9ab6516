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
from .failed import FailedError, print_users_part, said, where_of
from .talk import Talk

__all__ = ["main"]

_MOST_PICKLES = 32


def _may_have_distributions(folder):
    """Tell whether `importlib.metadata` may find a distribution in a folder of the import path."""
    if folder.endswith(".egg") or not os.path.isdir(folder):
        return True
    try:
        return any("-info" in name or ".egg" in name for name in os.listdir(folder))
    except OSError:
        return False


def _loaded_from(names):
    """Return {folder of the import path that may have distributions: the first parts of the paths of modules below it}."""
    files = [getattr(sys.modules.get(name), "__file__", None) or "" for name in names]
    found = {}
    for folder in dict.fromkeys(os.path.join(one, "") for one in sys.path if one and isinstance(one, str)):
        tops = {file[len(folder) :].partition(os.sep)[0] for file in files if file.startswith(folder)}
        if tops and _may_have_distributions(folder[: -len(os.sep)]):
            found[folder[: -len(os.sep)]] = tops
    return found


def _may_have(distribution, tops):
    """Tell whether a distribution may have a file below one of these names; a wheel's list of files is read for it."""
    listed = distribution.read_text("RECORD")
    return listed is None or any(line.lstrip('"').startswith(tops) for line in listed.splitlines())


def _distributions(names):
    """Return {distribution: version} of the modules with these names, and those that came from no index, sorted.

    A machine may have hundreds of distributions with many thousands of files: only those of loaded modules are looked for.
    """
    loaded_from = _loaded_from(names)
    if not loaded_from:
        return {}, []
    try:
        from importlib.metadata import distributions
    except ImportError:
        return {}, []
    folders, tops = {}, tuple(set().union(*loaded_from.values()))
    for one in distributions(path=list(loaded_from)):
        for file in (one.files or ()) if _may_have(one, tops) else ():
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
    from .named import MissingNameError
    from .target import find

    talk.begin("import")
    before = set(sys.modules)
    gil_before = proc.gil_enabled()
    begun_ns = time.perf_counter_ns()
    with LoadWatch() as watch:
        try:
            function = find(job["target"])
        except MissingNameError as error:
            talk.give("function", error=str(error), about="names")
            raise FailedError from None
        except BaseException as error:
            talk.give(
                "import",
                error=said(error),
                where=where_of(error),
                failed=watch.failed,
                missing=getattr(error, "name", None),
            )
            raise FailedError from error
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


def _function(job, talk):
    # Imported before the user's module, whose import is timed.
    from . import calls
    from .repeated import again, pickle_of, timed_call
    from .spread import order
    from .supply import Supply

    function = _import(job, talk)
    from .effects import Effects
    from .locks import Locks
    from .named import MissingNameError
    from .target import InputsError, bound, calls_of, class_of_method, maker_of

    talk.begin("function")
    if not callable(function):
        talk.give("function", error="it is %s, which cannot be called" % type(function).__name__, about="names")
        raise FailedError
    kind = calls.kind_of(function)
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    # A pool sends the function with each call: by its name, or, of a method, with its object.
    own_bytes, own_s, own_error = pickle_of(function)

    talk.begin("inputs")
    try:
        given, by_name, lost = calls_of(job["target"], function)
    except MissingNameError as error:
        talk.give("inputs", error=str(error), about="names")
        raise FailedError from None
    except InputsError as error:
        is_method = error.about not in ("inputs", "text", "pickled") and class_of_method(job["target"]) is not None
        talk.give("inputs", error=str(error), about="method" if is_method else error.about)
        raise FailedError from None
    except BaseException as error:
        talk.give("inputs", error=said(error), where=where_of(error))
        raise FailedError from error
    task, arguments = calls.task_of(function, kind, given)
    # The function itself goes with them, as the argument of another one or not; its size is told apart.
    some = [given[place] for place in order(len(given))[:_MOST_PICKLES]]
    pickles = [pickle_of((args, kwargs) if kwargs else args) for args, kwargs in some]
    sizes = [size for size, _, error in pickles if not error]
    talk.give(
        "inputs",
        count=len(given),
        by_name=by_name,
        bound=bound(function),
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
    result, first = timed_call(task, arguments[0], talk, about="method" if is_bare else "")
    if kind == calls.PLAIN and calls.is_lazy(result):
        kind = calls.GENERATOR
        task, arguments = calls.task_of(function, kind, given)
        result, first = timed_call(task, arguments[0], talk)
    elif kind == calls.PLAIN and hasattr(result, "__await__"):
        close = getattr(result, "close", None)
        if close is not None:
            close()
        kind = calls.ASYNC
        task, arguments = calls.task_of(function, kind, given)
        result, first = timed_call(task, arguments[0], talk)
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
    again(talk, effects, task, supply, result, lambda: Locks(function, own))


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
        from headway_agent.strangers.named import named
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
        problem = said(error)
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
            problems.append(said(error))

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
    except FailedError as failed:
        if failed.__cause__ is not None:
            print_users_part(failed.__cause__)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass  # the function has closed the stream
        os._exit(code)
