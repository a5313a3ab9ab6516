"""Environments that development installs once: complete or absent, whatever happens to the installation."""

import pytest
from provision.locked_environment import kept


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Use a folder of the test's own for libraries; return it."""
    monkeypatch.setenv("HEADWAY_LIBRARIES", str(tmp_path / "libraries"))
    return tmp_path / "libraries"


def test_a_folder_is_filled_once():
    """The second call finds the folder, and does not fill it again."""
    calls = []

    def fill(folder):
        calls.append(folder)
        (folder / "module.py").touch()

    first, second = kept("tool-1", fill), kept("tool-1", fill)

    assert first == second
    assert len(calls) == 1
    assert (first / "module.py").is_file()


def test_an_installation_that_fails_leaves_nothing(cache):
    """After a failure there is no folder, and the next call tries again."""

    def fail(folder):
        (folder / "half").touch()
        raise OSError("no network")

    with pytest.raises(OSError, match="no network"):
        kept("tool-1", fail)

    assert list(cache.iterdir()) == []
    assert kept("tool-1", lambda folder: (folder / "whole").touch()).joinpath("whole").exists()


def test_an_incomplete_folder_is_made_again(cache):
    """A folder that an earlier, killed run left is not taken for the environment."""
    kept("tool-1", lambda _: None)
    (cache / "tool-1" / "complete").unlink()

    folder = kept("tool-1", lambda folder: (folder / "whole").touch())

    assert (folder / "whole").exists()


def test_a_folder_that_another_process_made_meanwhile_is_taken(cache):
    """Of two processes that fill the same folder, the second takes the first one's, which may be in use."""

    def fill(folder):
        (folder / "second").touch()
        (cache / "tool-1").mkdir()
        for name in ("first", "complete"):
            (cache / "tool-1" / name).touch()

    folder = kept("tool-1", fill)

    assert (folder / "first").exists()
    assert [path.name for path in cache.iterdir()] == ["tool-1"]
