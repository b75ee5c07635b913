"""Sending a message: what is stored, what the page receives, and what is refused."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse

from chat.conversations.actions import conversation as actions_conversation
from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.messages import ModelChoice, start_conversation
from chat.conversations.paths import Path, read_path
from chat.models import (
    Conversation,
    Message,
    QueuedMessage,
    Role,
    Run,
    RunStatus,
    Team,
    Upstream,
    User,
)
from tests.support.rooms import HTMX, Headers, Patches, Room, end_run, filled_form, url_of

pytestmark = pytest.mark.databases(slow=True)


def start(client: Client, data: dict[str, str]) -> HttpResponse:
    return client.post(reverse("conversation_new"), data, headers=HTMX)


# --- a first message ------------------------------------------------------------------------


def test_first_message_starts_a_conversation(
    as_alice: Client, team: Team, upstream: Upstream
) -> None:
    data = filled_form(
        upstream, "The springs of the Elder", team=team.public_id.hex, visibility="team"
    )

    response = start(as_alice, data)

    conversation = Conversation.objects.get()
    assert response.headers["HX-Redirect"] == url_of("conversation", conversation)
    assert response.headers["HX-Trigger"] == "room:accepted"
    assert (conversation.title, conversation.visibility) == ("The springs of the Elder", "team")
    assert Run.objects.get().status == RunStatus.QUEUED


def test_double_click_starts_one_conversation(
    as_alice: Client, team: Team, upstream: Upstream
) -> None:
    data = filled_form(upstream, team=team.public_id.hex)

    first, second = start(as_alice, data), start(as_alice, data)

    assert first.headers["HX-Redirect"] == second.headers["HX-Redirect"]
    assert Conversation.objects.count() == 1


@pytest.mark.databases
def test_simultaneous_clicks_start_one_conversation(
    transactional_db: None, alice: User, team: Team, upstream: Upstream
) -> None:
    key, together = uuid.uuid4(), threading.Barrier(2, timeout=60)

    def click() -> int:
        together.wait()
        try:
            choice = ModelChoice(upstream=upstream, model="demo/model")
            return start_conversation(
                alice, team, text="Once", choice=choice, idempotency_key=key
            ).pk
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        runs = {click.result() for click in [pool.submit(click) for _ in range(2)]}

    assert len(runs) == 1
    assert Conversation.objects.count() == 1


# --- a further message ----------------------------------------------------------------------


def test_sent_turns_are_appended_to_the_page(as_alice: Client, room: Room) -> None:
    answer = room.turn("First")
    data = room.form("Second", parent=answer)

    response = room.send(as_alice, data, room.position(answer))

    patches = Patches(response)
    run = Run.objects.latest("pk")
    assert patches.turns == [run.message.parent.public_id.hex, run.message.public_id.hex]
    assert patches.swaps("#turns") == ["beforeend"]
    assert "Stop" in patches.text("#composer-action")
    assert response.headers["HX-Trigger"] == "room:accepted"


@pytest.mark.databases
def test_double_click_sends_once(as_alice: Client, room: Room) -> None:
    answer = room.turn("First")
    data = room.form("Second", parent=answer)

    responses = [room.send(as_alice, data) for _ in range(2)]

    assert [response.status_code for response in responses] == [200, 200]
    assert Message.objects.filter(text="Second").count() == 1


def test_message_sent_again_below_its_own_answer_counts_once(as_alice: Client, room: Room) -> None:
    data = room.form("Second", parent=room.turn("First"))
    room.send(as_alice, data)
    begun = Run.objects.latest("pk").message

    response = room.send(as_alice, {**data, "parent": begun.public_id.hex})

    assert response.headers["HX-Trigger"] == "room:accepted"
    assert Message.objects.filter(text="Second").count() == 1


def test_page_tells_only_the_sender_what_was_sent(
    as_alice: Client, as_bob: Client, room: Room
) -> None:
    data = room.form("Second", parent=room.turn("First"))
    room.send(as_alice, data)

    assert f'data-sent="{data["key"]}"' in room.source(as_alice)
    assert "data-sent" not in room.source(as_bob)


def test_sending_costs_few_queries_and_reads_no_queue(
    as_alice: Client,
    room: Room,
    django_assert_max_num_queries: Callable[..., AbstractContextManager[object]],
) -> None:
    answer = room.turn("First")
    headers = room.position(answer)
    data = room.form("Second", parent=answer)

    with django_assert_max_num_queries(32):
        response = room.send(as_alice, data, headers)

    assert Run.objects.filter(status=RunStatus.QUEUED).count() == 1
    # The place in the queue comes through the live connection, or with a page that is loaded.
    (place,) = Patches(response).tree.xpath("//*[@class='place']")
    assert place.text_content() == ""
    assert "Queued (position 1)" in room.source(as_alice)


def test_text_is_stored_as_it_was_written(as_alice: Client, room: Room) -> None:
    room.send(as_alice, room.form("  two\r\nlines\x00 "))

    assert Message.objects.get(role=Role.USER).text == "  two\nlines␀ "


def test_parameters_are_stored_with_run_and_conversation(as_alice: Client, room: Room) -> None:
    data = room.form(system_prompt="Be brief.")
    data |= {"lmstudio-temperature": "0.2", "lmstudio-top_k": "", "openai_chat-temperature": "9"}

    room.send(as_alice, data)

    run = Run.objects.get()
    room.conversation.refresh_from_db()
    assert (run.parameters, run.system_prompt) == ({"temperature": 0.2}, "Be brief.")
    assert room.conversation.parameters == {"temperature": 0.2}


def test_typed_model_overrides_the_list(as_alice: Client, room: Room) -> None:
    room.send(as_alice, room.form(typed_model="acme/new-model"))

    assert Run.objects.get().model == "acme/new-model"


def test_accepted_message_renews_the_key(as_alice: Client, room: Room) -> None:
    answer = room.turn("First")
    data = room.form("Second", parent=answer)

    patches = Patches(room.send(as_alice, data, room.position(answer)))

    (key,) = patches.tree.xpath("//*[@hx-target='#composer-key']//input/@value")
    assert key != data["key"]


def test_end_of_the_answer_brings_the_send_button_back(as_alice: Client, room: Room) -> None:
    run = room.ask("First")
    headers = room.live_position(run, open=[run.message.public_id.hex])
    end_run(run)

    patches = room.changes(as_alice, headers)

    assert patches.turns == []
    assert patches.to("#strip") == [("outerHTML", "")]
    assert "Stop" not in patches.text("#composer-action")
    assert "Try again" in patches.text(f"#a{run.message.public_id.hex}")


# --- the short response to a page that shows everything else -----------------------------------


def current_position(client: Client, room: Room, answer: Message) -> Headers:
    """The headers of a page that has just been loaded."""
    (head,) = room.page(client).xpath("//*[@id='room-head']//@data-mark")
    return room.position(answer, head=head)


def changed(headers: Headers, **fields: object) -> Headers:
    position = json.loads(headers["X-Room-Position"]) | fields
    return {**headers, "X-Room-Position": json.dumps(position)}


def test_current_page_gets_a_short_response(
    as_alice: Client,
    room: Room,
    django_assert_max_num_queries: Callable[..., AbstractContextManager[object]],
) -> None:
    answer = room.turn("First")
    data = room.form("Second", parent=answer)
    headers = current_position(as_alice, room, answer)
    revision = json.loads(headers["X-Room-Position"])["revision"]

    # On PostgreSQL one that lets a person's messages count one after the other.
    with django_assert_max_num_queries(17):
        short = room.send(as_alice, data, headers)
    # The same message again, from a page that may lack more.
    long = room.send(as_alice, data, changed(headers, revision=revision - 1))

    assert [bool(Patches(one).to("#conversations")) for one in (short, long)] == [False, True]
    assert short.headers["X-Room-Revision"] == long.headers["X-Room-Revision"]
    differs = {"#composer-key", "#conversations"}
    first, second = (
        {target: patch for target, patch in Patches(one).by_target.items() if target not in differs}
        for one in (short, long)
    )
    assert first == second
    assert set(first) >= {"#turns", "#strip", "#composer-action", "#composer-aim", "#composer-note"}


@pytest.mark.parametrize("lacks", ["the title", "a run", "a question", "its position"])
def test_page_that_lacks_more_gets_all_of_it(as_alice: Client, room: Room, lacks: str) -> None:
    answer = room.turn("First")
    current = current_position(as_alice, room, answer)
    headers = {
        "the title": current,
        "a run": changed(current, open=[answer.public_id.hex]),
        "a question": changed(current, asks={"0" * 32: ""}),
        "its position": HTMX,
    }[lacks]
    if lacks == "the title":
        actions_conversation.rename(room.conversation, "Another title")

    response = room.send(as_alice, room.form("Second", parent=answer), headers)

    patches = Patches(response)
    assert patches.to("#conversations")
    if lacks == "the title":
        assert "Another title" in patches.text("#room-head")


def test_simultaneous_message_is_not_left_out(
    as_alice: Client, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = room.turn("First")
    headers = current_position(as_alice, room, answer)
    others: list[Run] = []

    def read_after_another_message(user: User, conversation: Conversation) -> Path:
        if not others:
            fresh = Room(Conversation.objects.get(pk=conversation.pk), room.upstream)
            others.append(fresh.ask("From another tab", answer))
        return read_path(user, conversation)

    monkeypatch.setattr("chat.conversations.page.read_path", read_after_another_message)
    response = room.send(as_alice, room.form("Second", parent=answer), headers)

    (other,) = others
    shown = [other.message.parent.public_id.hex, other.message.public_id.hex]
    assert Patches(response).turns == shown
    assert Patches(response).to("#conversations")


# --- keys that were used before ---------------------------------------------------------------


def test_other_text_under_a_used_key_is_refused(as_alice: Client, room: Room) -> None:
    answer = room.turn("First")
    data = room.form("Second", parent=answer)
    room.send(as_alice, data)

    response = room.send(as_alice, {**data, "text": "Second, and more"})

    patches = Patches(response)
    assert response.status_code == 409
    assert "was already sent" in patches.text("#composer-note")
    assert patches.to("#composer-key")
    assert "HX-Trigger" not in response.headers


def test_parameters_that_were_filled_are_sent(as_alice: Client, room: Room) -> None:
    filled = {"lmstudio-temperature": "0", "lmstudio-top_k": "", "lmstudio-top_p": "0.5"}

    room.send(as_alice, room.form(**filled))
    invalid = room.send(as_alice, room.form(**{"lmstudio-temperature": "hot"}))

    assert Run.objects.get().parameters == {"temperature": 0.0, "top_p": 0.5}
    assert invalid.status_code == 422


def test_other_edit_under_a_used_key_is_refused(as_alice: Client, room: Room) -> None:
    url = url_of("message_edit", room.turn("First").parent)
    data = room.form("Second")
    as_alice.post(url, data)

    again = as_alice.post(url, data)
    other = as_alice.post(url, {**data, "text": "Third"})

    texts = Message.objects.filter(role="user").values_list("text", flat=True)
    assert again.status_code == 302
    assert other.status_code == 409
    assert "was already sent" in other.content.decode()
    assert set(texts) == {"First", "Second"}


def test_edit_under_a_used_key_gets_another_key(as_alice: Client, room: Room) -> None:
    question = room.turn("First").parent
    url, data = url_of("message_edit", question), room.form("Second")
    as_alice.post(url, data, headers=HTMX)

    refused = as_alice.post(url, {**data, "text": "Third"}, headers=HTMX)

    patches = Patches(refused)
    place = f"k{question.public_id.hex}"
    assert refused.status_code == 409
    assert "was already sent" in patches.text(f"#e{question.public_id.hex}")
    assert patches.to(f"#{place}")
    assert f'id="{place}"' in as_alice.get(url, headers=HTMX).content.decode()


def test_retry_of_another_answer_under_a_used_key_is_refused(as_alice: Client, room: Room) -> None:
    first = room.turn("First")
    second = room.turn("Second", first)
    data = room.form("")
    as_alice.post(url_of("message_retry", second), data)

    response = as_alice.post(url_of("message_retry", first), data)

    assert response.status_code == 409
    assert Message.objects.filter(parent=first.parent).count() == 1


# --- refusals -------------------------------------------------------------------------------


@pytest.mark.databases
def test_of_two_messages_at_the_same_moment_one_is_queued(
    transactional_db: None,
    as_alice: Client,
    as_bob: Client,
    room: Room,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer, together = room.turn("First"), threading.Barrier(2, timeout=60)
    parent_of = message_actions.parent_in

    def read_by_both(*arguments: Any, **options: Any) -> Message | None:
        parent = parent_of(*arguments, **options)
        together.wait()
        return parent

    def send(client: Client) -> int:
        try:
            return room.send(client, room.form("Mine", parent=answer)).status_code
        finally:
            connection.close()

    monkeypatch.setattr(message_actions, "parent_in", read_by_both)
    with ThreadPoolExecutor(2) as pool:
        statuses = list(pool.map(send, (as_alice, as_bob)))

    assert statuses == [200, 200]
    sent = Message.objects.get(parent=answer)
    assert QueuedMessage.objects.get().after.parent == sent


def test_parent_of_another_conversation_is_refused(
    as_alice: Client, room: Room, private_conversation: Conversation
) -> None:
    other = Room(private_conversation, room.upstream)
    answer = other.turn("Elsewhere")

    response = room.send(as_alice, room.form(parent=answer))

    assert response.status_code == 409
    assert not room.conversation.messages.exists()


def test_message_below_a_person_s_message_is_refused(as_alice: Client, room: Room) -> None:
    answer = room.turn("First")

    response = room.send(as_alice, room.form(parent=answer.parent))

    assert response.status_code == 409
    assert "no longer in this conversation" in Patches(response).text("#composer-note")
    assert set(room.conversation.messages.all()) == {answer, answer.parent}


def test_invalid_fields_are_refused_with_a_reason(
    as_alice: Client, room: Room, subtests: pytest.Subtests
) -> None:
    for fields, reason in (
        ({"text": " \n "}, "Enter a message."),
        ({"key": "no key"}, "Reload the page"),
        ({"choice": f"{uuid.uuid4().hex}:m"}, "no longer available"),
        ({"choice": ""}, "No models available. Ask an administrator."),
        ({"lmstudio-temperature": "7"}, "Temperature:"),
        ({"lmstudio-temperature": "nan"}, "Temperature:"),
        ({"lmstudio-temperature": "warm"}, "Temperature:"),
    ):
        with subtests.test(msg=str(fields)):
            response = room.send(as_alice, room.form() | fields)

            assert response.status_code in (409, 422)
            assert reason in Patches(response).text("#composer-note")
            assert not Message.objects.exists()


def test_disabled_server_cannot_be_chosen(as_alice: Client, room: Room, upstream: Upstream) -> None:
    Upstream.objects.update(is_enabled=False)

    response = room.send(as_alice, room.form())

    assert response.status_code == 422
    assert not Run.objects.exists()


def test_disabled_model_cannot_be_chosen(as_alice: Client, room: Room, upstream: Upstream) -> None:
    upstream.model_list[0]["is_off"] = True
    upstream.save()

    for model in ({}, {"typed_model": "demo/model"}):
        response = room.send(as_alice, room.form() | model)

        assert response.status_code == 422
        assert "This model is no longer available" in Patches(response).text("#composer-note")
    assert not Run.objects.exists()


def test_refusal_without_scripts_keeps_the_text(as_alice: Client, room: Room) -> None:
    answer = room.turn("First")
    data = room.form("Keep <these> words", parent=answer.parent)

    response = room.send(as_alice, data, headers={})

    assert response.status_code == 409
    assert "Keep &lt;these&gt; words</textarea>" in response.content.decode()


def test_expired_session_returns_to_the_conversation(room: Room) -> None:
    headers = {**HTMX, "HX-Current-URL": f"http://testserver{room.url}"}

    response = room.send(Client(), room.form(), headers)

    assert response.status_code == 401
    target = response.headers["HX-Redirect"]
    assert target.startswith(reverse("account_login"))
    assert target.endswith(f"next=%2Fc%2F{room.conversation.public_id}%2F")


@pytest.mark.parametrize("url", ["https://elsewhere.example/c/", "//elsewhere.example/c/"])
def test_expired_session_never_leads_to_another_site(room: Room, url: str) -> None:
    response = room.send(Client(), room.form(), {**HTMX, "HX-Current-URL": url})

    assert "elsewhere" not in response.headers["HX-Redirect"]


@pytest.fixture
def fill_disk(transactional_db: None) -> Iterator[Callable[[], None]]:
    """Lets the database grow no further, as on a full disk."""

    def fill() -> None:
        with connection.cursor() as cursor:
            # Free pages of deleted rows would take the message in.
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA page_count")
            (pages,) = cursor.fetchone()
            cursor.execute(f"PRAGMA max_page_count = {pages}")

    yield fill
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA max_page_count = 1073741823")


@pytest.mark.databases(only="sqlite")
def test_full_disk_refuses_the_message_and_keeps_the_text(
    fill_disk: Callable[[], None], as_alice: Client, room: Room
) -> None:
    fill_disk()

    response = room.send(as_alice, room.form("A long story. " * 20_000))

    assert response.status_code == 507
    assert "Your text is still here" in Patches(response).text("#composer-note")
    assert "HX-Trigger" not in response.headers
    assert not Message.objects.exists()
