"""Tool servers that are commands of this installation: the setting ``TOOL_COMMANDS`` has their command lines, and the
address of a server names one, as ``command:NAME``. Nothing of a command line comes from a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from django.conf import settings
from django.utils.translation import gettext

from chat.core.errors import ActionRefused

PREFIX = "command:"


class CommandLine(NamedTuple):
    """A program with its arguments, and what it has in its environment besides ``PATH`` and the like."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def is_command(address: str) -> bool:
    return address.startswith(PREFIX)


def command_line(address: str) -> CommandLine | None:
    """Returns ``None`` if this process has no such command."""
    found = settings.TOOL_COMMANDS.get(address.removeprefix(PREFIX))
    return CommandLine(*found) if found is not None and is_command(address) else None


def check_command(address: str) -> str:
    """The address as it is stored. Raises ``ActionRefused``."""
    address = PREFIX + address.removeprefix(PREFIX).strip()
    if command_line(address) is None:
        text = gettext("The setting TOOL_COMMANDS has no command named %(name)s.")
        raise ActionRefused(text % {"name": address.removeprefix(PREFIX)[:64]})
    return address
