"""The files of the standard library and of packages."""

import pytest

from headway.traces.analysis.advice import pickles
from headway.traces.analysis.hotspots import own_frame
from headway.traces.analysis.stall_model import Cause, Part
from headway.traces.frames import Frame
from headway.traces.libraries import is_library, is_standard

APP = Frame("/app/app.py", 7, "work", 1)


def at(filename, function="f"):
    return Frame(filename, 1, function, 1)


@pytest.mark.parametrize(
    ("filename", "library", "standard"),
    [
        ("/usr/lib/python3.13/socket.py", True, True),
        ("/usr/lib64/python3.12/socket.py", True, True),
        ("/usr/local/lib/python3.13t/socket.py", True, True),
        ("/home/me/.pyenv/versions/3.13.1t/lib/python3.13t/json/decoder.py", True, True),
        ("/home/me/.local/share/uv/python/cpython-3.14.0-linux-x86_64-gnu/lib/python3.14/socket.py", True, True),
        ("/opt/app/python311.zip/socket.py", True, True),
        ("/usr/lib/python313t.zip/socket.py", True, True),
        ("<frozen importlib._bootstrap>", True, True),
        ("/usr/lib64/python3.12/site-packages/flask/app.py", True, False),
        ("/v/lib/python3.13t/site-packages/flask/app.py", True, False),
        ("/usr/lib/python3/dist-packages/yaml/__init__.py", True, False),
        ("/v/bin/app", False, False),
        ("/srv/lib/python3.11/bin/app.py", False, False),
        ("/srv/lib/python3.x/app.py", False, False),
        ("/app/socket.py", False, False),
        ("<string>", False, False),
        ("", False, False),
    ],
)
def test_the_folder_tells_the_standard_library_and_packages(filename, library, standard):
    """Distributions and builds have folders of different names, and a program may be in a folder beside them."""
    assert (is_library(at(filename)), is_standard(at(filename))) == (library, standard)


@pytest.mark.parametrize("folder", ["/usr/lib64/python3.12", "/usr/local/lib/python3.13t", "/opt/python311.zip"])
def test_a_line_of_any_builds_standard_library_is_not_the_programs(folder):
    """The line is the one that called the library, in stalls as in reports."""
    package = at(f"{folder}/site-packages/flask/app.py")
    recv, receives = at(f"{folder}/socket.py"), at(f"{folder}/multiprocessing/connection.py")
    part = Part(Cause.BLOCKED, 1, 0, (recv, package, APP))

    assert own_frame((recv, package, APP)) == part.place == APP
    assert part.library == package
    assert Part(Cause.BLOCKED, 1, 0, (recv, APP)).library is None
    assert pickles((receives, APP))
