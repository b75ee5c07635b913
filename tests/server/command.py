"""Runs the serve command as ``manage.py`` would, with a lifespan that only says what it is told."""

import os
import sys
import types

from tests.server.process import say


async def start() -> None:
    say("started")


async def stop() -> None:
    say("stopped")


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.server.settings"
    lifespan = types.ModuleType("project.lifespan")
    vars(lifespan).update(start=start, stop=stop)
    sys.modules["project.lifespan"] = lifespan

    import django

    django.setup()
    from chat.management.commands.serve import Command

    Command().run_from_argv(["manage.py", "serve", *sys.argv[1:]])


if __name__ == "__main__":
    main()
