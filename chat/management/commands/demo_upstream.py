"""``manage.py demo_upstream``: an LLM server without an LLM, for first messages and for tests."""

import asyncio
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext

from chat.demo.process import CannotListen, serve
from chat.demo.server import DemoUpstream


def _speed(text: str) -> float:
    speed = float(text)
    if not 0 <= speed < float("inf"):
        raise ArgumentTypeError(gettext("the speed must be 0 (no pauses) or more"))
    return speed


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise ArgumentTypeError(gettext("the port must be a number from 0 to 65535"))
    return port


class Command(BaseCommand):
    help = (
        "Serve LLM APIs with prepared answers. Prints the address when it is ready, and runs "
        "until it is stopped."
    )
    # It needs neither a database nor the rest of the site.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="Interface (default: loopback).")
        parser.add_argument("--port", type=_port, default=0, help="Port (default 0: any free one).")
        parser.add_argument(
            "--speed", type=_speed, default=1.0, help="Speed factor; 0 means no pauses."
        )
        parser.add_argument(
            "--parent-pid", type=int, help="Exit when the process with this ID exits."
        )
        parser.add_argument(
            "--control",
            action="store_true",
            help="For tests: accept scripts at /control/, only from this machine.",
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
            raise CommandError(
                gettext("Can’t listen on %(address)s: %(reason)s")
                % {"address": address, "reason": error}
            ) from error

    def _announce(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()
