"""Functions whose objects are of a class of another project: their locks and changes are found, as those beside them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from headway_agent.strangers import effects

from headway.host.packages import in_packages

CACHE = """
import threading

class Cache:
    def __init__(self):
        self._lock, self.made = threading.Lock(), {}

    def get(self, key):
        with self._lock:
            self.made[key] = key

SHARED = Cache()
"""

USES = """
import json, logging, queue, sys
sys.path.insert(0, sys.argv[1])
import kept
from headway_agent.strangers.effects import Effects
from headway_agent.strangers.locks import Locks

CACHE, QUEUE, LOG = kept.Cache(), queue.Queue(), logging.getLogger("app")

def get(key):
    CACHE.get(key)
    kept.SHARED.get(key)
    QUEUE.put(key)

if __name__ == "__main__":
    import app
    effects = Effects(app.get)
    effects.begin()
    app.get(1)
    changes = effects.end()
    locks = Locks(app.get)
    app.get(2)
    print(json.dumps([changes, sorted(one["name"] for one in locks.over(1))]))
"""


@pytest.mark.parametrize("place", ["library/src", "library/site-packages"])
def test_the_locks_of_a_class_elsewhere_are_found(tmp_path, place):
    """A class of another project counts as the user's own; of an installed one, only the locks of the user's objects."""
    library, app = tmp_path / place, tmp_path / "app"
    library.mkdir(parents=True)
    app.mkdir()
    (library / "kept.py").write_text(CACHE)
    (app / "app.py").write_text(USES)
    agent = os.path.dirname(os.path.dirname(os.path.dirname(effects.__file__)))
    done = subprocess.run(
        [sys.executable, str(app / "app.py"), str(library)],
        env={**os.environ, "PYTHONPATH": agent},
        capture_output=True,
        text=True,
        check=True,
    )

    changes, locks = json.loads(done.stdout)
    if place.endswith("src"):
        assert ["globals", "app.CACHE.made changes"] in changes
        assert ["globals", "kept.SHARED.made changes"] in changes
        assert locks == ["CACHE._lock", "SHARED._lock"]
    else:
        assert changes == [["globals", "app.QUEUE changes"]]
        assert locks == ["CACHE._lock"]


@pytest.mark.parametrize("above", [0, 2], ids=["the tests", "the repository"])
def test_modules_of_python_and_of_headway_are_not_the_users_own(above):
    """The standard library, modules without a file, installed libraries and Headway itself are none of the user's.

    That holds for an editable Headway below the folder of the user's function, too.
    """
    own = effects.own_modules(str(Path(__file__).resolve().parents[above]))

    assert __name__ in own
    assert not {"json", "sys", "threading", "pytest", "headway_agent.strangers.effects"} & set(own)
    assert not [name for name in own if name.partition(".")[0] == "headway"]
    assert effects.is_of_python("json")
    assert not effects.is_of_python("pytest")


@pytest.mark.parametrize(
    ("path", "is_installed"),
    [
        ("/usr/lib/python3/dist-packages/numpy/__init__.py", True),
        ("/venv/lib/python3.13/site-packages/six.py", True),
        ("/home/me/my-site-packages/app.py", False),
        ("/home/me/app.py", False),
    ],
)
def test_the_agent_and_headway_agree_on_what_is_installed(path, is_installed):
    """A file of an installed package is known by the folders of its path."""
    assert effects.is_installed(path) is in_packages(Path(path)) is is_installed
