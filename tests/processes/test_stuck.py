"""A thread that hangs in the database keeps no process for ever."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.site import ROOT, SOON_SECONDS, environment

pytestmark = pytest.mark.process

STUCK = """
import asyncio, threading
import django
django.setup()
from chat.runs.database import readers
from project import lifespan

lifespan.STUCK_SECONDS = lifespan.GOODBYE_SECONDS = 0.1

async def main():
    hanging = asyncio.ensure_future(readers.call(threading.Event().wait))
    await asyncio.sleep(0)
    await lifespan.stop()
    print("said goodbye", flush=True)
    hanging.cancel()

asyncio.run(main())
"""


def test_a_server_of_which_a_thread_hangs_says_goodbye_and_ends(tmp_path: Path) -> None:
    settings = {"DJANGO_SETTINGS_MODULE": "project.settings", "DRAIN_SECONDS": "0"}

    ended = subprocess.run(
        [sys.executable, "-c", STUCK],
        cwd=ROOT,
        env={**environment(tmp_path), **settings},
        timeout=SOON_SECONDS,
        capture_output=True,
        text=True,
    )

    assert (ended.returncode, ended.stdout) == (1, "said goodbye\n"), ended.stderr
