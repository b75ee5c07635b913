"""The form of a queued message."""

from __future__ import annotations

from django.utils.translation import gettext_lazy

from chat.conversations.actions.messages import TEXT_LIMIT
from chat.web.forms import Sentences, WordsField


class QueuedTextForm(Sentences):
    """The text, unchanged. It needs no key: the same text twice is the same."""

    text = WordsField(
        label=gettext_lazy("Message"),
        strip=False,
        max_length=TEXT_LIMIT,
        error_messages={"required": gettext_lazy("Enter a message.")},
    )
