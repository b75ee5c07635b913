"""Kinds of servers: what is filled in when one of them is added."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_FILE = Path(__file__).parent / "kinds.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerKind:
    """A program or a provider, by its product name. ``is_local``: it usually runs in the team's own
    network. Without ``base_url`` the person looks the address up."""

    id: str
    name: str
    dialect: str
    base_url: str = ""
    is_local: bool = False
    options: Mapping[str, object] = field(default_factory=dict)
    models: tuple[str, ...] = ()


def _read(table: Mapping[str, object]) -> ServerKind:
    models = table.get("models", [])
    assert isinstance(models, list)
    return ServerKind(**{**table, "models": tuple(models)})  # type: ignore[arg-type]


# In the order of the tiles.
KINDS: dict[str, ServerKind] = {
    kind.id: kind for kind in map(_read, tomllib.loads(_FILE.read_text())["kind"])
}
