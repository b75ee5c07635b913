"""A runner process on a SQLite file, without a server."""

import re
import signal

import pytest

from tests.support.processes.runs import SEEN, SEEN_TEXT, assert_ended, text_of
from tests.support.processes.site import SOON_SECONDS, Process, Site, soon
from tests.support.upstream.script import Gate, stream

pytestmark = [pytest.mark.process, pytest.mark.slow]


class Runner(Process):
    command = ("runner",)
    ready = re.compile(r"runner\.started")


def test_second_sigterm_exits_at_once(site: Site) -> None:
    site.rows("UPDATE chat_upstream SET is_draining = ?", True)
    site.start()
    run = site.send("Where does the river run?")
    assert site.terminate() == 0
    site.rows("UPDATE chat_upstream SET is_draining = ?", False)
    site.fake.script(stream(SEEN, Gate(name="never")))
    runner = Runner(site.folder)
    try:
        runner.start(DRAIN_SECONDS="3600")
        site.fake.wait_until(lambda fake: fake.waiting == ["never"])
        soon(lambda: site.entries(run))

        runner.process.send_signal(signal.SIGTERM)
        soon(lambda: site.value("SELECT is_draining FROM chat_runner"))
        assert runner.is_alive
        runner.process.send_signal(signal.SIGTERM)
        assert runner.process.wait(SOON_SECONDS) == 128 + signal.SIGTERM

        assert site.run(run)["status"] == "running"
        runner.start()
        assert_ended(site, run, "interrupted")
        assert text_of(site, run) == SEEN_TEXT
        assert runner.terminate() == 0
    finally:
        runner.close()
