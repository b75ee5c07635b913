"""``manage.py demo_upstream``: an LLM server without an LLM, for first messages and for tests."""

import asyncio
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from chat.demo.process import CannotListen, serve
from chat.demo.server import DemoUpstream


def _speed(text: str) -> float:
    speed = float(text)
    if not 0 <= speed < float("inf"):
        raise ArgumentTypeError("the speed is 0 (no pauses) or more")
    return speed


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise ArgumentTypeError("a port is a number from 0 to 65535")
    return port


class Command(BaseCommand):
    help = (
        "Serve LM Studio's native API and OpenAI chat completions with prepared answers. "
        "Prints its address when it is ready and serves until it is told to stop."
    )
    # It needs neither a database nor the rest of the site.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="Interface (default: loopback).")
        parser.add_argument("--port", type=_port, default=0, help="Port (default 0: any free one).")
        parser.add_argument(
            "--speed", type=_speed, default=1.0, help="Divides all waiting; 0 means no pauses."
        )
        parser.add_argument(
            "--parent-pid", type=int, help="End when the process with this id has ended."
        )
        parser.add_argument(
            "--control",
            action="store_true",
            help="For tests: take scripts and record requests at /control/, from this machine only.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        upstream = DemoUpstream(
            host=options["host"],
            port=options["port"],
            speed=options["speed"],
            has_control=options["control"],
        )
        try:
            asyncio.run(serve(upstream, announce=self._announce, parent_pid=options["parent_pid"]))
        except CannotListen as error:
            address = f"{options['host']}:{options['port']}"
            raise CommandError(f"cannot listen on {address}: {error}") from error

    def _announce(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
