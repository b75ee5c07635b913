"""Prints the traceback of a failed test when the test fails, while the others run.

Pytest prints all tracebacks at the end, which in a long run is too late to begin with the first one.
The end of a run names in one line each what failed.
"""

from __future__ import annotations

import pytest


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    # Workers of pytest-xdist have no terminal: the process that hands out the tests has one.
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    # The other styles are for tracebacks that are asked for in short, at the end.
    if terminal is not None and config.option.tbstyle not in ("no", "line"):
        config.pluginmanager.register(FailurePrinter(config, terminal))


class FailurePrinter:
    """Takes the place of the two sections that pytest prints at the end."""

    def __init__(self, config: pytest.Config, terminal: pytest.TerminalReporter) -> None:
        self._config = config
        self._terminal = terminal
        terminal.summary_failures = terminal.summary_errors = lambda: None  # type: ignore[method-assign]

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            name = report.head_line or report.nodeid
            self._print(
                name if report.when == "call" else f"ERROR at {report.when} of {name}", report
            )

    @pytest.hookimpl(trylast=True)
    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._print(f"ERROR collecting {report.nodeid}", report)

    def _print(self, title: str, report: pytest.TestReport | pytest.CollectReport) -> None:
        writer = self._config.get_terminal_writer()
        if writer.width_of_current_line:
            writer.line()
        self._terminal.write_sep("_", title, red=True, bold=True)
        # With the worker, the traceback, and the file and line where it failed.
        report.toterminal(writer)
        shown = self._config.option.showcapture
        for heading, content in report.sections:
            if shown == "all" or shown in heading:
                writer.sep("-", heading)
                writer.line(content.rstrip("\n"))
        # Where the output is a file or a pipe, it would wait there for more.
        writer.flush()
