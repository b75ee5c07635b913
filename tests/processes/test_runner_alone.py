"""A runner without a server, on a SQLite file: it executes what waits there."""

import re
import signal

import pytest

from chat.demo.script import Gate, stream
from tests.processes.test_crashes import SEEN, assert_ended, text_of
from tests.support.processes.site import SOON_SECONDS, Process, Site, soon

pytestmark = pytest.mark.process


class Runner(Process):
    command = ("runner",)
    ready = re.compile(r"runner\.started")


def test_a_second_signal_ends_it_at_once_and_the_next_one_ends_what_it_left(site: Site) -> None:
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
        assert text_of(site, run) == "The river runs **down**"
        assert runner.terminate() == 0
    finally:
        runner.close()
