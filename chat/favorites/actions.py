"""Marks models as favorites of a person, and takes the mark away."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext, ngettext

from chat import access
from chat.core.errors import ActionRefused
from chat.models import FavoriteModel, Upstream, User

# Longer lists are no shortcut, and every page with a picker has them.
MOST_FAVORITES = 30


def add_favorite(user: User, upstream: Upstream, model: str) -> None:
    """Marks the model, if it isn't marked yet. Raises ``ActionRefused`` for a model that can't be chosen, and if there
    are too many."""
    if all(entry["id"] != model for entry in upstream.chat_models):
        raise ActionRefused(gettext("This model is no longer available. Choose another model."))
    with transaction.atomic():
        # Favorites that can't be seen at present don't count.
        if len(access.favorite_models(user)) >= MOST_FAVORITES:
            words = ngettext(
                "You can have up to %(count)d favorite. Remove one first.",
                "You can have up to %(count)d favorites. Remove one first.",
                MOST_FAVORITES,
            )
            raise ActionRefused(words % {"count": MOST_FAVORITES})
        FavoriteModel.objects.get_or_create(user=user, upstream=upstream, model=model)


def remove_favorite(user: User, upstream: Upstream, model: str) -> None:
    FavoriteModel.objects.filter(user=user, upstream=upstream, model=model).delete()
