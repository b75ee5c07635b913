"""Connections to PostgreSQL."""

from __future__ import annotations

import pytest
from django.db import connection

pytestmark = [pytest.mark.databases(only="postgresql"), pytest.mark.usefixtures("db")]


@pytest.mark.parametrize(
    ("name", "value"), [("plan_cache_mode", "force_generic_plan"), ("jit", "off")]
)
def test_statements_are_planned_once_and_not_compiled(name: str, value: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SHOW {name}")
        assert cursor.fetchone() == (value,)
