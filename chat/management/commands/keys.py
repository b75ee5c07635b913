"""Shows whether the keys match the database; encrypts stored secrets again; accepts other keys."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.translation import gettext

from chat.administration import keys
from project.startup import REFUSED, refuse_missing_migrations


class Command(BaseCommand):
    help = (
        "check: check that the keys of this process match the database. "
        "rotate: encrypt all stored secrets with the first of ENCRYPTION_KEYS. "
        "accept: continue with the current keys after the old ones were lost."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "action", choices=("check", "rotate", "accept"), nargs="?", default="check"
        )

    def handle(self, *, action: str, **options: Any) -> None:
        refuse_missing_migrations()
        state = ACTIONS[action]()
        if state.problem:
            raise CommandError(state.problem, returncode=REFUSED)
        self.stdout.write(
            gettext(
                "The keys match. Encryption keys: %(keys)d. Stored secrets: %(readable)d readable "
                "(%(outdated)d encrypted with an older key), %(unreadable)d unreadable."
            )
            % {
                "keys": state.encryption_keys,
                "readable": state.readable,
                "outdated": state.outdated,
                "unreadable": state.unreadable,
            }
        )
        if state.unreadable:
            raise CommandError(
                gettext("Some credentials can’t be read. Enter them again under Servers."),
                returncode=1,
            )


def rotate() -> keys.KeyState:
    try:
        keys.adopt_keys()
    except keys.WrongKeys as wrong:
        raise CommandError(str(wrong), returncode=REFUSED) from None
    return keys.rotate_keys()


ACTIONS = {"check": keys.key_state, "rotate": rotate, "accept": keys.accept_keys}
