"""The client of an administrator who is in no team."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from chat.models import User


@pytest.fixture
def ada(administrator: User, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(administrator)
