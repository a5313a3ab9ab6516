"""The native library is found, or the error names the cause."""

import pytest

from headway import library
from headway.errors import NativeError


@pytest.mark.parametrize(("content", "told"), [(None, "was not found"), (b"no library", "does not load")])
def test_a_library_that_the_environment_names_is_the_cause(content, told, tmp_path, monkeypatch):
    """The hint names the variable, and not a compiler or a build that has nothing to do with it."""
    path = tmp_path / "named.so"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("HEADWAY_NATIVE", str(path))
    with pytest.raises(NativeError, match=told) as caught:
        library.library_path()
    assert str(path) in caught.value.message
    assert caught.value.hint.startswith("HEADWAY_NATIVE names it")


def test_an_installed_library_that_is_missing_has_the_compiler_as_its_cause(tmp_path, monkeypatch):
    """Without the variable, the installation is incomplete."""
    monkeypatch.delenv("HEADWAY_NATIVE", raising=False)
    monkeypatch.setattr(library, "_candidates", lambda: [tmp_path / "libheadway.so"])
    with pytest.raises(NativeError, match="was not found") as caught:
        library.library_path()
    assert "without a C compiler" in caught.value.hint


def test_an_archive_is_named_as_the_cause(tmp_path, monkeypatch):
    """The library of a package inside a zip cannot be loaded: no compiler helps."""
    archive = tmp_path / "app.pyz"
    archive.write_bytes(b"PK")
    monkeypatch.delenv("HEADWAY_NATIVE", raising=False)
    monkeypatch.setattr(library, "__file__", str(archive / "headway" / "library.py"))
    with pytest.raises(NativeError, match=r"cannot be loaded from an archive: headway is in .*app\.pyz") as caught:
        library.library_path()
    assert caught.value.hint.startswith("unpack the archive")
