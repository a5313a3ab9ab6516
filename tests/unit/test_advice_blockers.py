"""The module that does not load in a sub-interpreter: the one whose error ended the import."""

import contextlib

import pytest

from headway.agent.headway_agent.strangers.blockers import LoadWatch, refused_by

REFUSES = "module {} does not support loading in subinterpreters"


def loading(watch, name):
    """Fail as the loader of an extension does."""
    error = ImportError(REFUSES.format(name.rpartition(".")[2]))
    watch.failed.append([name, f"ImportError: {error}"])
    watch.errors.append(error)
    raise error


def goes_on(watch):
    """Import a package that does without its extension, and then one that does not."""
    with contextlib.suppress(ImportError):
        loading(watch, "yaml._yaml")
    loading(watch, "lxml.etree")


def raises_its_own(watch):
    """Import such packages; the second one hides the error."""
    with contextlib.suppress(ImportError):
        loading(watch, "yaml._yaml")
    try:
        loading(watch, "lxml.etree")
    except ImportError:
        raise RuntimeError("broken") from None


def raises_later(watch):
    """Import such packages; the second one fails later, with an error of its own."""
    with contextlib.suppress(ImportError):
        loading(watch, "yaml._yaml")
    with contextlib.suppress(ImportError):
        loading(watch, "lxml.etree")
    raise RuntimeError("there is no parser")


@pytest.mark.parametrize("importing", [goes_on, raises_its_own, raises_later])
def test_a_module_that_the_import_does_without_is_not_blamed(importing):
    """PyYAML goes on without its extension: the name of that would lead the user astray."""
    watch = LoadWatch()
    with pytest.raises((ImportError, RuntimeError)) as ended:
        importing(watch)

    assert refused_by(ended.value, watch) == "lxml.etree"


def test_an_error_without_a_loader_is_told_by_its_words():
    """An error that another interpreter raised has only words."""
    assert refused_by(ImportError(REFUSES.format("_bcrypt")), LoadWatch()) == "_bcrypt"
    assert refused_by(ValueError("no"), LoadWatch()) == ""
