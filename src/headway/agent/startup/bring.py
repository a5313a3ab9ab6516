"""Imports modules of `headway_agent` into a program, as code that is in no file of the program's.

A tool of the program takes every file for the program's own that it sees in a frame or in sys.modules: `coverage`
counts its lines, a reloader waits for its change. By convention, code whose file's name begins with `<` is in no file.
So the code objects have such names, as "<headway>/headway_agent/recorder.py", and the modules have no `__file__`.
Tracebacks still show lines, because the loader gives the source.

The text of this file is executed (start.py, headway.live.script). No entry of sys.path is needed, and none of
sys.path_importer_cache is left. CPython 3.8 to 3.15.
"""

import sys
from _frozen_importlib import ModuleSpec
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


class _Finder:
    def __init__(self, agent):
        self._package = agent + "/headway_agent"

    def find_spec(self, name, path=None, target=None):
        package, _, module = name.partition(".")
        if package != "headway_agent":
            return None
        spec = ModuleSpec(name, None, is_package=not module)
        spec.origin = "%s/%s.py" % (self._package, module.replace(".", "/") or "__init__")
        spec.loader = _Loader(name, spec.origin)
        if not module:
            spec.submodule_search_locations.append(self._package)
        return spec


def bring(agent, *names):
    """Import modules of headway_agent, which is in the folder `agent`; return them."""
    finder, finders = _Finder(agent), sys.meta_path
    finders.insert(0, finder)
    try:
        package = __import__("headway_agent", fromlist=names)
    finally:
        finders.remove(finder)
    return [getattr(package, name) for name in names]
