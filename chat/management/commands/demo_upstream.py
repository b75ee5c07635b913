"""``manage.py demo_upstream``: an LLM server without an LLM, for first messages."""

import asyncio
import logging
import os
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.utils.translation import gettext
from twisted.internet.error import CannotListenError

from chat.demo.application import DemoApplication
from project.server.server import ConnectionLimits, Server

# Requests may carry pictures.
BODY_BYTES = 64 * 1024 * 1024
CLOSE_SECONDS = 1.0
# No system call waits for the end of a parent, so we look this often.
LOOK_SECONDS = 0.5


async def until_orphaned(parent_pid: int) -> None:
    """Returns when the parent has ended: then another process is the parent."""
    while os.getppid() == parent_pid:  # noqa: ASYNC110
        await asyncio.sleep(LOOK_SECONDS)


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
    # The command needs neither a database nor the rest of the site.
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="Interface (default: loopback).")
        parser.add_argument("--port", type=_port, default=0, help="Port (default 0: any free one).")
        parser.add_argument(
            "--speed", type=_speed, default=1.0, help="Speed factor; 0 means no pauses."
        )
        parser.add_argument("--parent-pid", type=int, help="Exit when this parent process exits.")

    def handle(self, *args: Any, **options: Any) -> None:
        # Starting and stopping of these servers is no news in the log of the site.
        logging.getLogger("project.server").setLevel(logging.WARNING)
        watching: set[asyncio.Task[None]] = set()

        async def start() -> None:
            self.stdout.write(f"demo upstream {server.address}")
            self.stdout.flush()
            if options["parent_pid"]:
                task = asyncio.create_task(until_orphaned(options["parent_pid"]))
                task.add_done_callback(lambda done: done.cancelled() or server.stop())
                watching.add(task)

        async def stop() -> None:
            for task in watching:
                task.cancel()

        server = Server(
            DemoApplication(speed=options["speed"]),
            host=options["host"],
            port=options["port"],
            limits=ConnectionLimits(body_bytes=BODY_BYTES, close_seconds=CLOSE_SECONDS),
            on_start=start,
            on_stop=stop,
        )
        try:
            server.listen()
        except CannotListenError as error:
            reason = error.socketError.strerror or str(error.socketError)
            address = f"{options['host']}:{options['port']}"
            raise CommandError(
                gettext("Can’t listen on %(address)s: %(reason)s")
                % {"address": address, "reason": reason}
            ) from error
        server.run()
