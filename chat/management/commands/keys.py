"""Shows whether the keys match the database; encrypts stored secrets again; accepts other keys."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from chat.administration import keys
from project.startup import REFUSED, refuse_missing_migrations


class Command(BaseCommand):
    help = (
        "check: do the keys of this process fit the database? "
        "rotate: seal every stored secret with the first of ENCRYPTION_KEYS. "
        "accept: go on with the present keys, after the old ones were lost."
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
            f"The keys fit. Encryption keys here: {state.encryption_keys}. Stored secrets: "
            f"{state.readable} readable, {state.outdated} of them sealed with an older key, "
            f"{state.unreadable} unreadable."
        )
        if state.unreadable:
            raise CommandError(
                "Enter the credentials that cannot be read again, at Settings → Servers.",
                returncode=1,
            )


def rotate() -> keys.KeyState:
    try:
        keys.adopt_keys()
    except keys.WrongKeys as wrong:
        raise CommandError(str(wrong), returncode=REFUSED) from None
    return keys.rotate_keys()


ACTIONS = {"check": keys.key_state, "rotate": rotate, "accept": keys.accept_keys}
