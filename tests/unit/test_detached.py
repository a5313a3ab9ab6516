"""The start of a process that is no child of its starter."""

import os
import sys

import pytest

from headway.live.detached import start_detached


@pytest.mark.parametrize(
    ("code", "said"),
    [("import time; time.sleep(60)", "it is not ready after 0.1 s"), ("import sys; sys.exit(3)", "with exit code 3")],
    ids=["late", "ended"],
)
def test_no_error_tells_the_command(code, said):
    """A command has a door's secret number, and the reason of a failure goes to a service's log."""
    kept = os.open(os.devnull, os.O_RDONLY)
    try:
        with pytest.raises((OSError, ValueError), match=said) as failed:
            start_detached([sys.executable, "-I", "-S", "-c", code, "secret"], kept, {}, 0.1 if "sleep" in code else 60)
    finally:
        os.close(kept)

    assert "secret" not in str(failed.value)
    assert failed.value.__suppress_context__
