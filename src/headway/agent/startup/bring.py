"""Imports modules of `headway_agent` into a program, as code that is in no file of the program's.

A tool of the program takes every file for the program's own that it sees in a frame or in sys.modules: `coverage`
counts its lines, a reloader waits for its change. By convention, code whose file's name begins with `<` is in no file.
So the code objects have such names, as "<headway>/headway_agent/recorder.py", and the modules have no `__file__`.
Tracebacks still show lines, because the loader gives the source.

The text of this file is executed (start.py, headway.live.script). No entry of sys.path is needed, and none of
sys.path_importer_cache is left. The loader is called without a finder: a thread of the program that is importing goes
through sys.meta_path, and passes over a finder of its own if that list changes meanwhile. CPython 3.8 to 3.15.
"""

import sys
from _frozen_importlib import ModuleSpec, _load_unlocked, _ModuleLockManager
from _frozen_importlib_external import SourceFileLoader
from _imp import _fix_co_filename


class _Loader(SourceFileLoader):
    """Loads a module from its file or its bytecode, and writes no bytecode."""

    def get_code(self, fullname):
        code = SourceFileLoader.get_code(self, fullname)
        _fix_co_filename(code, "<headway>/" + self.path[self.path.rindex("/headway_agent/") + 1 :])
        return code

    def set_data(self, *arguments, **options):
        pass


_FIRST = {"recorder": ("frames", "library", "watched"), "scheduler": ("library",)}
"""The modules that each module imports. They are loaded before it, because no finder would find them for it."""


def bring(agent, *names):
    """Import modules of headway_agent, which is in the folder `agent`; return them."""
    package = _loaded(agent, "headway_agent")
    for name in names:
        for one in _FIRST.get(name, ()) + (name,):
            setattr(package, one, _loaded(agent, "headway_agent." + one))
    return [getattr(package, name) for name in names]


def _loaded(agent, name):
    with _ModuleLockManager(name):
        return sys.modules.get(name) or _load_unlocked(_spec(agent, name))


def _spec(agent, name):
    package, _, module = name.partition(".")
    spec = ModuleSpec(name, None, is_package=not module)
    spec.origin = "%s/%s/%s.py" % (agent, package, module or "__init__")
    spec.loader = _Loader(name, spec.origin)
    if not module:
        spec.submodule_search_locations.append("%s/%s" % (agent, package))
    return spec
