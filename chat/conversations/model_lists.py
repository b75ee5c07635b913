"""The models that a picker shows first: a person's favorites, and those that they used last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chat import access
from chat.models import User

# More are found faster by their name.
MOST_RECENT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLists:
    """The values of options."""

    favorites: Sequence[str] = ()
    recent: Sequence[str] = ()


def model_lists(user: User) -> ModelLists:
    return ModelLists(
        favorites=[f"{server.hex}:{model}" for server, model in access.favorite_models(user)],
        recent=[f"{server.hex}:{model}" for server, model in access.recent_models(user)],
    )
