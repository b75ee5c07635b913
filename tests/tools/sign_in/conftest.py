"""A server at which people sign in, and a person who has done so."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.core.cache import cache
from pytest_django import Settings

from chat.models import (
    Conversation,
    Question,
    Run,
    Team,
    Tool,
    ToolAccount,
    ToolCredentials,
    ToolServer,
    Upstream,
    User,
    Visibility,
)
from chat.tools.sign_in import actions, found
from chat.tools.sign_in.waiting_calls import go_on_connected
from tests.tools.calling import waiting_run
from tests.tools.sign_in.oauth_server import OAuthServer, oauth_server
from tests.tools.sign_in.personal import Ask, make_tool

Connect = Callable[..., ToolAccount]


@pytest.fixture
def oauth() -> Iterator[OAuthServer]:
    with oauth_server() as server:
        yield server


@pytest.fixture(autouse=True)
def _private_networks(settings: Settings) -> None:
    settings.UPSTREAM_PRIVATE_NETWORKS = "any"
    # It counts the sign-ins of a minute.
    cache.clear()
    # Ports are used again.
    found.forget()


@pytest.fixture
def server(team: Team, oauth: OAuthServer) -> ToolServer:
    return ToolServer.objects.create(
        team=team, name="Harbor", address=oauth.mcp, credentials=ToolCredentials.PERSON
    )


def answer_in(address: str) -> dict[str, str]:
    """The answer that the browser brings back."""
    return dict(parse_qsl(urlsplit(address).query))


@pytest.fixture
def connect(server: ToolServer, oauth: OAuthServer) -> Connect:
    def connect(
        user: User, person: str = "ana", *, question: Question | None = None
    ) -> ToolAccount:
        """On the settings page, or at the card of a question."""
        page = actions.begin_sign_in(user, server, question=question)
        answer = answer_in(oauth.allow(page.address, person))
        account = actions.finish(user, actions.take_sign_in(user, answer["state"]), answer)
        if question is not None:
            go_on_connected(user, question)
        return account

    return connect


@pytest.fixture
def tool(server: ToolServer, conversation: Conversation) -> Tool:
    tool = make_tool(server)
    conversation.tools.add(tool)
    return tool


@pytest.fixture
def run(alice: User, conversation: Conversation, upstream: Upstream, tool: Tool) -> Run:
    """Alice's answer waits for approval of a call with her account."""
    conversation.visibility, conversation.shared_role = Visibility.TEAM, "writer"
    conversation.save()
    return waiting_run(alice, conversation, upstream, "whoami")


@pytest.fixture
def ask(alice: User, conversation: Conversation, upstream: Upstream, tool: Tool) -> Ask:
    """Begins another answer in the conversation, which Alice has asked for, with calls of these tools."""

    def ask(*names: str, by: User = alice) -> Run:
        room = Conversation.objects.get(pk=conversation.pk)
        return waiting_run(by, room, upstream, *(names or [tool.name]))

    return ask
