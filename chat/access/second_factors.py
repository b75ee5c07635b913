"""The policy of second factors: who needs one, and which sessions and tokens fulfill that.

``User.has_second_factor`` is part of each user that is loaded anyway, so the policy costs no query.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, auto
from typing import Any

from django.conf import settings
from django.db.models import Q

from chat.models import User

# The session's member with the key of the person whose second factor was checked in it.
PASSED_KEY = "second_factor"


class FactorState(Enum):
    """The state of a session. ``UNVERIFIED``: the person has a second factor and this session did not check it.
    ``MISSING``: the person needs one and has none, so nothing but the pages that add one is open."""

    FULFILLED = auto()
    UNVERIFIED = auto()
    MISSING = auto()


def needs_factor(user: User) -> bool:
    """True if the policy requires a second factor of this person."""
    if settings.SECOND_FACTOR == "all":
        return True
    return settings.SECOND_FACTOR == "administrators" and (user.is_staff or user.is_superuser)


def factor_state(user: User, session: Mapping[str, Any]) -> FactorState:
    if user.has_second_factor:
        has_passed = session.get(PASSED_KEY) == user.pk
        return FactorState.FULFILLED if has_passed else FactorState.UNVERIFIED
    return FactorState.MISSING if needs_factor(user) else FactorState.FULFILLED


def fulfills_policy(prefix: str = "") -> Q:
    """The condition on a person, whose columns begin with ``prefix``, to have the factor that the policy requires."""
    has_factor = Q(**{f"{prefix}has_second_factor": True})
    if settings.SECOND_FACTOR == "all":
        return has_factor
    if settings.SECOND_FACTOR == "administrators":
        is_ordinary = Q(**{f"{prefix}is_staff": False, f"{prefix}is_superuser": False})
        return has_factor | is_ordinary
    return Q()
