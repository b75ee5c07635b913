"""``manage.py makemessages``: Django's command, which also collects the texts of TOML files."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.core.management.commands import makemessages
from django.utils.translation import gettext

import chat
from chat.dialects import DIALECTS

# The source tree's; an installation's own catalogues in DATA_DIR are not touched.
CATALOGUES = Path("locale")
# Exists while the command runs. ``xgettext`` reads Python, but no TOML.
COLLECTED = Path("chat/dialects/parameter_texts.py")
IGNORED = ("data", "tests", "vendor")
# TOML files with texts for people, and the members that have them; all members if none are named.
DATA_FILES: dict[str, tuple[str, ...]] = {
    "administration/sentences.toml": (),
    "conversations/parameter_groups.toml": ("title",),
    "conversations/starters.toml": ("title", "text"),
    "health/proxies.toml": ("where",),
}


class Command(makemessages.Command):
    # Without the settings, Django looks for catalogues in ``./locale`` alone.
    settings_available = False

    def handle(self, *args: object, **options: object) -> None:
        if not COLLECTED.parent.is_dir():
            raise CommandError(gettext("Run this command in the folder that contains manage.py."))
        CATALOGUES.mkdir(exist_ok=True)
        patterns = options["ignore_patterns"]
        assert isinstance(patterns, list)
        options["ignore_patterns"] = [*patterns, *IGNORED]
        COLLECTED.write_text(collected())
        try:
            super().handle(*args, **options)
        finally:
            COLLECTED.unlink()


def collected() -> str:
    """A Python module that marks each text of the TOML files, with a comment that tells translators
    where it is shown. A text that occurs twice is marked once."""
    lines = ["from chat.events.translation import gettext_noop"]
    places = dict((*data_texts(), *parameter_texts()))
    for text, place in places.items():
        lines += [f"# Translators: {place}", f"gettext_noop({text!r})"]
    return "\n".join([*lines, ""])


def data_texts() -> Iterator[tuple[str, str]]:
    """Each text of `DATA_FILES`, with its place."""
    for path, names in DATA_FILES.items():
        waiting: list[Any] = [tomllib.loads(Path(chat.__path__[0], path).read_text())]
        while waiting:
            value = waiting.pop()
            for name, each in value.items() if isinstance(value, dict) else enumerate(value):
                if isinstance(each, dict | list):
                    waiting.append(each)
                elif not names or name in names:
                    yield each, f"{name} in {path}"


def parameter_texts() -> Iterator[tuple[str, str]]:
    """Each label, help and choice of the dialects' parameters, with its place."""
    for dialect in DIALECTS.values():
        for parameter in (*dialect.options, *dialect.parameters):
            named = f'parameter "{parameter.name}" of {dialect.label}'
            choices = [parameter.choice_label(choice) for choice in parameter.choices]
            texts = [
                (parameter.label, f"label of {named}"),
                (parameter.help, f"help of {named}"),
                *((choice, f"choice of {named}") for choice in choices),
            ]
            yield from (each for each in texts if each[0])
