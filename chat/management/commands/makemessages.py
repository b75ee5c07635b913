"""``manage.py makemessages``: Django's command, which also collects the texts of TOML files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from django.core.management.base import CommandError
from django.core.management.commands import makemessages
from django.utils.translation import gettext

from chat.dialects import DIALECTS

# Of the source tree only: an installation's own catalogues in DATA_DIR are not touched.
CATALOGUES = Path("locale")
# Exists while the command runs. ``xgettext`` reads Python, but no TOML.
COLLECTED = Path("chat/dialects/parameter_texts.py")
IGNORED = ("data", "tests", "vendor")


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
    """A Python module that marks each text of the dialects' parameters, with a comment that tells
    translators where it is shown."""
    lines = ["from chat.events.translation import gettext_noop"]
    for text, place in parameter_texts():
        lines += [f"# Translators: {place}", f"gettext_noop({text!r})"]
    return "\n".join([*lines, ""])


def parameter_texts() -> Iterator[tuple[str, str]]:
    """Each label, help and choice, with its place; a text that occurs twice is returned once."""
    seen: set[str] = set()
    for dialect in DIALECTS.values():
        for parameter in (*dialect.options, *dialect.parameters):
            named = f'parameter "{parameter.name}" of {dialect.label}'
            choices = [parameter.choice_label(choice) for choice in parameter.choices]
            texts = [
                (parameter.label, f"label of {named}"),
                (parameter.help, f"help of {named}"),
                *((choice, f"choice of {named}") for choice in choices),
            ]
            for text, place in texts:
                if text and text not in seen:
                    seen.add(text)
                    yield text, place
