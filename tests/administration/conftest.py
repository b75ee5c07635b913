"""An administrator's client, and finished answers to look at."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from chat.models import Conversation, Run, Upstream, User
from tests.administration.conversations import answer, ask


@pytest.fixture
def admin_client(administrator: User, signed_in: Callable[[User], Client]) -> Client:
    return signed_in(administrator)


@pytest.fixture
def private_run(private_conversation: Conversation, alice: User, upstream: Upstream) -> Run:
    """The answer to Alice's one question in her private conversation."""
    question = ask(private_conversation, alice, "Where is my *secret* spring?")
    return answer(question, "Below the **old** mill.", upstream=upstream)


@pytest.fixture
def shared_run(conversation: Conversation, bob: User, upstream: Upstream) -> Run:
    question = ask(conversation, bob, "How wide is the delta?")
    return answer(question, "Three miles.", upstream=upstream)
