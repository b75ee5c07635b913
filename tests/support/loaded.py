"""Everything that a server process imports, imported once: processes are forked from one that has it.

Most of what a server does until it serves is importing the application. What a module makes of a
setting when it is imported must be the same in the process that is forked, which `take_settings` finds out:
Django's settings remember which of them were read.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

# What matters to imports differs where processes share a Redis.
ALONE: dict[str, str] = {}
SHARED = {
    "DATABASE_URL": "postgres://nobody@127.0.0.1:9/none",
    "REDIS_URL": "redis://127.0.0.1:9/0",
    "RUNNER": "external",
}
# Read at imports for something that is done again, or that is not kept.
_TAKEN_LATER = {"DATABASES", "LOCALE_PATHS", "LOGGING", "REDIS_URL"}
# By commands and by `project.asgi`, which itself reads the address of the site.
_IMPORTED_LATER = (
    *("allauth.account.auth_backends", "project.sessions"),
    *("chat.health.endpoints", "chat.health.streaming_test"),
    *("chat.live.sse", "chat.live.websocket"),
    *("chat.management.commands.runner", "chat.management.commands.serve"),
    *("chat.public_api.endpoints", "chat.public_api.log_stream"),
    *("django.db.migrations.executor", "project.lifespan", "project.server.request_pool"),
)
_TEMPLATES = Path(__file__).resolve().parents[2] / "templates"


def load(environment: Mapping[str, str]) -> None:
    """Imports the application as a process does that has these settings."""
    before = dict(os.environ)
    kept = {name: before[name] for name in ("PATH", "HOME") if name in before}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.clear()
        os.environ.update(kept, **environment, DATA_DIR=folder)
        os.environ["DJANGO_SETTINGS_MODULE"] = "project.settings"
        try:
            _import_everything()
        finally:
            os.environ.clear()
            os.environ.update(before)
    # Otherwise each process would look at all of it again, and have copies of what it looked at.
    gc.freeze()


def _import_everything() -> None:
    import django

    django.setup()
    from django.conf import settings

    for name in (*_IMPORTED_LATER, *(path.rpartition(".")[0] for path in settings.MIDDLEWARE)):
        import_module(name)
    from django.db.migrations.loader import MigrationLoader
    from django.template import engines
    from django.urls import get_resolver

    assert get_resolver().url_patterns
    MigrationLoader(None)
    # Compiling the templates of a page takes longer than all else that its first request does.
    [engine] = engines.all()
    for path in _TEMPLATES.rglob("*.html"):
        engine.get_template(str(path.relative_to(_TEMPLATES)))


def take_settings() -> bool:
    """Makes those of the environment the settings of this process. Returns whether everything that was
    imported is as if it had been imported with them; if not, nothing was changed that a new program would notice."""
    from django.conf import Settings, settings
    from django.core.exceptions import ImproperlyConfigured

    before = settings._wrapped
    read = settings.__dict__.keys() - {"_wrapped"}
    sys.modules.pop("project.settings", None)
    try:
        now = Settings("project.settings")
    except ImproperlyConfigured:
        # It is reported by the program itself.
        return False
    if _what_imports_made(before, read) != _what_imports_made(now, read):
        return False
    settings._wrapped = now
    _forget_connections()
    _begin_another_loop()
    return True


def _what_imports_made(settings: Any, read: set[str]) -> dict[str, object]:
    values = {name: getattr(settings, name, None) for name in read - _TAKEN_LATER}
    engine = settings.DATABASES["default"]["ENGINE"]
    return {
        **values,
        "engine": engine,
        "redis": bool(settings.REDIS_URL),
        "RUNNER": settings.RUNNER,
    }


def _forget_connections() -> None:
    from asgiref.local import Local
    from django.db import connections
    from django.utils.translation import trans_real

    vars(connections).pop("settings", None)
    connections._settings = None
    connections._connections = Local(connections.thread_critical)
    trans_real._default = None
    trans_real._translations.clear()


def _begin_another_loop() -> None:
    """What the reactor's loop waits for would be shared with all processes that are forked."""
    import daphne.server
    from twisted.internet import reactor

    daphne.server.twisted_loop = asyncio.new_event_loop()
    reactor.__init__(daphne.server.twisted_loop)  # type: ignore[misc]
