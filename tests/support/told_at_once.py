"""A failed test is named at once: a whole run takes many minutes, and pytest names the failures only at its end."""

import pytest

__all__ = ["ToldAtOnce"]


class ToldAtOnce:
    """A plugin of the process that reports; the workers of xdist have no terminal."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        if report.failed and terminal is not None:
            terminal.write_line("")  # ends the line of dots
            terminal.write_line(f"{report.when} failed: {report.nodeid}", red=True)
