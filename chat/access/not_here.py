"""The refusal of an object that a user may not see: the same as of one that doesn’t exist."""

from __future__ import annotations

from typing import TypeVar

from django.http import Http404
from django.utils.translation import gettext_lazy

from chat.models import User

Record = TypeVar("Record")

NOT_HERE = gettext_lazy("This doesn’t exist, or you don’t have access to it.")


def existing(found: Record | None) -> Record:
    """The record. Raises ``Http404`` if there is none."""
    if found is None:
        raise Http404(NOT_HERE)
    return found


def check_is_active(user: User) -> None:
    """Raises ``Http404`` unless the user is signed in and may be."""
    if not user.is_authenticated or not user.is_active:
        raise Http404(NOT_HERE)
