"""The serve command in a process of its own, with a lifespan that only prints."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

from tests.server.application import say
from tests.support.forking import Forked


class ServeCommand(Forked):
    """Runs the command as ``manage.py`` would, on a free port."""

    def __init__(self, data_dir: Path, *arguments: str, **environment: str) -> None:
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        super().__init__(
            run,
            ["serve", "--port", "0", *arguments],
            {**kept, "DATA_DIR": str(data_dir), **environment},
            has_stderr=True,
        )


async def start() -> None:
    say("started")


async def stop() -> None:
    say("stopped")


def run(arguments: list[str], environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment, DJANGO_SETTINGS_MODULE="tests.server.settings")
    lifespan = types.ModuleType("project.lifespan")
    vars(lifespan).update(start=start, stop=stop)
    sys.modules["project.lifespan"] = lifespan

    import django

    django.setup()
    from chat.management.commands.serve import Command

    Command().run_from_argv(["manage.py", *arguments])
