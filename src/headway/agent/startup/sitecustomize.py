"""Starts the recorder, and a policy for the GIL, in every Python process that has startup.zip on its PYTHONPATH.

CPython's `site` imports `sitecustomize` at startup, before the program runs, unless it is told not to (-I, -E with
PYTHONPATH, -S). The work is in start.py. Its code has a file's name by which tools of the program pass it by (bring.py);
this module has a file's name of its own, which `coverage` sees if a `.pth` file has started it before, so everything here
runs in every process.

Pythons that have no recorder (2.7, 3.7) read this file, too.
The file is imported from an archive that tools/startup_archive.py makes, because no Python writes bytecode
for a module in an archive.
"""

import os
import sys

folder, read, given = os.path.dirname(__file__), __loader__.get_data, {"__name__": "headway_start"}
exec(compile(read(os.path.join(folder, "start.py")), "<headway>/startup/start.py", "exec"), given)
given["start"](folder, read)
# The sitecustomize that would have been found without us takes our place in sys.modules. Its errors are its own. If
# there is none, its ImportError is what `site` expects. Some importers then try to remove us from sys.modules
# themselves.
ours = sys.modules.pop(__name__)
try:
    import sitecustomize  # noqa: F401
finally:
    sys.modules.setdefault(__name__, ours)
