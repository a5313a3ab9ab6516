"""Which installed distributions the import of a function's module has loaded."""

import importlib.metadata
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
from headway_agent.strangers import examine


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of the import path with the distributions of `FILES`; their modules are loaded."""
    for name, (loaded, files) in FILES.items():
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "RECORD").write_text("".join(f"{one},,\n" for one in files))
        for one in files:
            (tmp_path / one).parent.mkdir(exist_ok=True)
            (tmp_path / one).touch()
        for one in loaded:
            module = ModuleType(one)
            module.__file__ = str(tmp_path / one.replace(".", "/")) + ".py"
            monkeypatch.setitem(sys.modules, one, module)
    (tmp_path / "direct-1.0.dist-info" / "direct_url.json").write_text(json.dumps({"url": "file:///x", "dir_info": {}}))
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


FILES: dict[str, tuple[list[str], list[str]]] = {
    "alone": (["hw_alone"], ["hw_alone.py"]),
    "direct": (["hw_direct"], ["hw_direct.py"]),
    "one": (["hw_shared.one"], ["hw_shared/one.py"]),
    "other": ([], ["hw_shared/other.py"]),
    "more": (["hw_shared.more"], ["hw_shared/more.py"]),
    "idle": ([], ["hw_idle.py"]),
}
LOADED = ["hw_alone", "hw_direct", "hw_shared.one", "hw_shared.more", "json", "sys"]


def test_the_distributions_of_loaded_modules_are_told(installed: Path) -> None:
    """Several may share a folder; those of which no module is loaded are none of them."""
    found, direct = examine._distributions(LOADED)

    assert found == {"alone": "1.0", "direct": "1.0", "one": "1.0", "more": "1.0"}
    assert direct == ["direct"]


def test_the_files_of_other_distributions_are_not_looked_at(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each file of a distribution is looked for on the disk; an environment may have tens of thousands."""
    asked: list[str] = []

    class Noted:
        def __init__(self, one: importlib.metadata.Distribution) -> None:
            self._one = one

        def __getattr__(self, name: str) -> object:
            if name == "files":
                asked.append(self._one.metadata["Name"])
            return getattr(self._one, name)

    # The distributions may be of another class than the standard library's: a backport of it finds them, too.
    found = importlib.metadata.distributions
    monkeypatch.setattr(importlib.metadata, "distributions", lambda **where: map(Noted, found(**where)))
    examine._distributions(LOADED)

    assert sorted(asked) == ["alone", "direct", "more", "one", "other"]


def test_nothing_is_looked_for_where_only_the_standard_library_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the module that finds distributions is not imported either, which takes longer than all the rest."""
    monkeypatch.setitem(sys.modules, "importlib.metadata", None)

    assert examine._loaded_from(["json", "sys"]) == {}
    assert examine._distributions(["json", "sys"]) == ({}, [])
