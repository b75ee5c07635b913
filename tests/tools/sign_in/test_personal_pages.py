"""The cards of calls that use somebody's account."""

from __future__ import annotations

import pytest
from django.test import Client

from chat.inbox.entries import entries_of
from chat.models import (
    Conversation,
    Run,
    Tool,
    ToolAccount,
    ToolCall,
    ToolRule,
    User,
)
from chat.runs.tool_calls import NOT_CONNECTED
from tests.tools.calling import (
    call_of,
    statuses,
)
from tests.tools.sign_in.conftest import Connect, answer_in
from tests.tools.sign_in.oauth_server import OAuthServer
from tests.tools.sign_in.personal import (
    card,
)

pytestmark = pytest.mark.django_db


def test_card_offers_connecting_to_the_executor_only(
    client: Client, run: Run, alice: User, bob: User, viewer: User, connect: Connect
) -> None:
    call = call_of(run)
    offer = f"/q/{call.question.public_id}/connect/"
    approve = f"/q/{call.question.public_id}/approve/"

    hers, his, read = (card(client, reader, run) for reader in (alice, bob, viewer))

    assert offer in hers
    assert offer not in his + read
    assert "Waiting for Alice to connect an account" in his
    assert approve not in hers + his + read

    connect(alice)
    hers, his, read = (card(client, reader, run) for reader in (alice, bob, viewer))

    assert approve in hers
    assert approve not in his + read
    assert "Waiting for Alice’s approval" in his
    assert "With the account of Alice" in his


def test_connecting_from_the_card_leads_back_to_it(
    client: Client, run: Run, alice: User, bob: User, oauth: OAuthServer
) -> None:
    Tool.objects.update(rule=ToolRule.AUTO)
    ToolCall.objects.update(error=NOT_CONNECTED)
    call = call_of(run)
    address = f"/q/{call.question.public_id}/connect/"
    client.force_login(bob)
    assert client.post(address).status_code == 404
    client.force_login(alice)

    page = client.post(address).context["page"]
    response = client.get("/settings/connections/callback/", answer_in(oauth.allow(page.address)))

    place = f"/c/{run.conversation.public_id}/#ask-{call.question.public_id.hex}"
    assert response["Location"] == place
    assert ToolAccount.objects.get().person == alice
    assert statuses(run) == [("running", "queued")]


def test_call_is_in_the_inbox_of_its_executor_only(
    client: Client, run: Run, alice: User, bob: User
) -> None:
    # Also where somebody else has the conversation and asked for the answer.
    Conversation.objects.update(owner=bob)
    Run.objects.update(requested_by=bob)
    call = call_of(run)
    place = call.question.public_id.hex

    client.force_login(alice)
    assert place in client.get("/inbox/").content.decode()
    client.force_login(bob)
    assert place not in client.get("/inbox/").content.decode()
    # What is counted and notified.
    assert [entry.kind for entry in entries_of(alice) if entry.kind == "call"] == ["call"]
    assert [entry.kind for entry in entries_of(bob) if entry.kind == "call"] == []
