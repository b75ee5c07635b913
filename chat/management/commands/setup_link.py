"""Prints the one-time address of the set-up page, or says that set-up is done."""

from typing import Any

from django.core.management.base import BaseCommand
from django.utils.translation import gettext

from chat.accounts.actions.setup import setup_link


class Command(BaseCommand):
    help = "Print the one-time setup link for a new installation."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(
            setup_link() or gettext("Tributary is already set up. Sign in with your account.")
        )
