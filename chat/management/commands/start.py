"""Starts Tributary on this machine with its demo servers, as `make run` does."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext

from chat.servers.actions.demo import ensure_demo_upstream
from chat.tools.demo import ensure_demo_tools


class Command(BaseCommand):
    help = "Start the demo servers and Tributary, and print its address."

    def handle(self, **options: Any) -> None:
        settings.DEMO_UPSTREAM_URL = start_demo()
        ensure_demo_upstream()
        ensure_demo_tools()
        # The demo servers watch this process, so it must stay the same one.
        os.environ["DEMO_UPSTREAM_URL"] = settings.DEMO_UPSTREAM_URL
        command = [sys.executable, sys.argv[0], "serve", "--welcome"]
        os.execv(sys.executable, command)  # noqa: S606


def start_demo() -> str:
    """Starts the demo servers as a process of their own, and returns their address."""
    command = [sys.executable, sys.argv[0], "demo_upstream", "--parent-pid", str(os.getpid())]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert demo.stdout is not None
    line = demo.stdout.readline().strip()
    if not line.startswith("demo upstream http"):
        raise CommandError(gettext("The demo server didn’t start."))
    return line.removeprefix("demo upstream ")
