"""A process whose thread hangs in the database still exits."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.site import ROOT, SOON_SECONDS, environment

pytestmark = [pytest.mark.process, pytest.mark.slow]

SCRIPT = """
import asyncio, threading
import django
django.setup()
from chat.core.threads import readers
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


def test_server_exits_although_a_thread_hangs(tmp_path: Path) -> None:
    settings = {"DJANGO_SETTINGS_MODULE": "project.settings", "DRAIN_SECONDS": "0"}

    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=ROOT,
        env={**environment(tmp_path), **settings},
        timeout=SOON_SECONDS,
        capture_output=True,
        text=True,
    )

    assert (ended.returncode, ended.stdout) == (1, "said goodbye\n"), ended.stderr
