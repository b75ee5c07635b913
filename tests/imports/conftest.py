"""Files are read in the process of the tests: starting the child takes ten times as long as reading."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import pytest

from chat.imports import reader, source


@pytest.fixture(autouse=True)
def read_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for tests marked ``in_child``, which show that each format can be read in the child."""
    if request.node.get_closest_marker("in_child"):
        return

    def read(_: str, file: BinaryIO, order: bytes, **more: Any) -> Iterator[bytes]:
        yield from reader.read_export(file, order)

    monkeypatch.setattr(source, "read_in_child", read)
