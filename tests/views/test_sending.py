from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest
from django.db import connection
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.actions import conversations as verbs
from chat.actions.conversations import ModelChoice, start_conversation
from chat.models import Conversation, Message, Role, Run, RunStatus, Team, Upstream, User
from chat.views.transcript import Path, read_path
from tests.views.conftest import HTMX, Patches, Room, address, end_run, position

pytestmark = pytest.mark.databases

Form = Callable[..., dict[str, str]]


def send(client: Client, room: Room, data: dict[str, str], **headers: str) -> object:
    return client.post(
        address("conversation_send", room.conversation), data, headers=headers or HTMX
    )


def test_first_message_begins_a_conversation_and_goes_to_its_page(
    as_alice: Client, team: Team, form_of: Form
) -> None:
    data = form_of("The springs of the Elder", team=team.public_id.hex, visibility="team")

    response = as_alice.post(reverse("conversation_new"), data, headers=HTMX)

    conversation = Conversation.objects.get()
    assert response.headers["HX-Redirect"] == address("conversation", conversation)
    assert response.headers["HX-Trigger"] == "room:accepted"
    assert (conversation.title, conversation.visibility) == ("The springs of the Elder", "team")
    assert Run.objects.get().status == RunStatus.QUEUED


def test_double_click_begins_one_conversation(as_alice: Client, team: Team, form_of: Form) -> None:
    data = form_of(team=team.public_id.hex)

    first = as_alice.post(reverse("conversation_new"), data, headers=HTMX)
    second = as_alice.post(reverse("conversation_new"), data, headers=HTMX)

    assert first.headers["HX-Redirect"] == second.headers["HX-Redirect"]
    assert Conversation.objects.count() == 1


def test_two_clicks_at_the_same_moment_begin_one_conversation(
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


def test_double_click_sends_once(as_alice: Client, room: Room, form_of: Form, alice: User) -> None:
    answer = room.turn(alice, "First")
    data = form_of("Second", parent=answer.public_id.hex)

    responses = [send(as_alice, room, data) for _ in range(2)]

    assert [response.status_code for response in responses] == [200, 200]
    assert Message.objects.filter(text="Second").count() == 1


def test_sent_turns_are_appended_to_the_page_that_asked(
    as_alice: Client, room: Room, form_of: Form, alice: User
) -> None:
    answer = room.turn(alice, "First")
    headers = position(answer.parent, answer, room.conversation)

    response = send(as_alice, room, form_of("Second", parent=answer.public_id.hex), **headers)

    patches = Patches(response)
    run = Run.objects.latest("pk")
    assert patches.turns == [run.message.parent.public_id.hex, run.message.public_id.hex]
    assert [swap for swap, _ in patches.to("#turns")] == ["beforeend"]
    assert "Stop" in patches.to("#composer-action")[0][1]
    assert response.headers["HX-Trigger"] == "room:accepted"


def test_a_message_costs_few_statements_and_no_look_at_the_line(
    as_alice: Client,
    room: Room,
    form_of: Form,
    alice: User,
    django_assert_max_num_queries: Callable[..., AbstractContextManager[object]],
) -> None:
    answer = room.turn(alice, "First")
    headers = position(answer.parent, answer, room.conversation)
    with django_assert_max_num_queries(32):
        first = send(as_alice, room, form_of("Second", parent=answer.public_id.hex), **headers)

    assert Run.objects.filter(status=RunStatus.QUEUED).count() == 1
    # Who waits is told so by the live connection, and by a page that is loaded.
    (queued,) = Patches(first).tree.xpath("//*[@class='place']")
    assert queued.text_content() == ""
    page = as_alice.get(address("conversation", room.conversation))
    assert b"Place 1 in line" in page.content


def on_the_page(client: Client, room: Room, first: Message, tail: Message) -> dict[str, str]:
    """The headers of a page that has just been loaded."""
    page = html.fromstring(client.get(address("conversation", room.conversation)).content)
    (head,) = page.xpath("//*[@id='room-head']//@data-mark")
    return position(first, tail, room.conversation, head=head)


def test_a_page_that_lacks_nothing_else_gets_its_message_for_less(
    as_alice: Client,
    room: Room,
    form_of: Form,
    alice: User,
    django_assert_max_num_queries: Callable[..., AbstractContextManager[object]],
) -> None:
    answer = room.turn(alice, "First")
    data = form_of("Second", parent=answer.public_id.hex)
    headers = on_the_page(as_alice, room, answer.parent, answer)
    said = json.loads(headers["X-Room-Position"])
    behind = {**headers, "X-Room-Position": json.dumps({**said, "revision": said["revision"] - 1})}

    with django_assert_max_num_queries(15):
        short = send(as_alice, room, data, **headers)
    # The same again, from a page that may lack more.
    long = send(as_alice, room, data, **behind)

    assert (short.headers.get("X-Room-List"), long.headers.get("X-Room-List")) == ("later", None)
    assert short.headers["X-Room-Revision"] == long.headers["X-Room-Revision"]
    varies = {"#composer-key", "#conversations"}
    first, second = (
        {target: patch for target, patch in Patches(one).by_target.items() if target not in varies}
        for one in (short, long)
    )
    assert first == second
    assert set(first) >= {"#turns", "#strip", "#composer-action", "#composer-aim", "#composer-note"}


@pytest.mark.parametrize("change", ["renamed", "a run", "a question", "no position"])
def test_a_page_that_lacks_more_gets_all_of_it(
    as_alice: Client, room: Room, form_of: Form, alice: User, change: str
) -> None:
    answer = room.turn(alice, "First")
    headers = on_the_page(as_alice, room, answer.parent, answer)
    said = json.loads(headers["X-Room-Position"])
    if change == "renamed":
        verbs.rename(room.conversation, "Another title")
    elif change == "no position":
        headers = HTMX
    else:
        more = {"a run": {"open": [answer.public_id.hex]}, "a question": {"asks": {"0" * 32: ""}}}
        headers = {**headers, "X-Room-Position": json.dumps({**said, **more[change]})}

    response = send(as_alice, room, form_of("Second", parent=answer.public_id.hex), **headers)

    assert "X-Room-List" not in response.headers
    assert Patches(response).to("#conversations")
    if change == "renamed":
        assert "Another title" in Patches(response).to("#room-head")[0][1]


def test_what_was_written_between_a_message_and_its_answer_is_not_left_out(
    as_alice: Client,
    room: Room,
    form_of: Form,
    alice: User,
    upstream: Upstream,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = room.turn(alice, "First")
    headers = on_the_page(as_alice, room, answer.parent, answer)
    others: list[Run] = []

    def late(user: User, conversation: Conversation) -> Path:
        if not others:
            choice = ModelChoice(upstream=upstream, model="demo/model")
            others.append(
                verbs.send_message(
                    alice,
                    Conversation.objects.get(pk=conversation.pk),
                    parent=answer,
                    text="From another tab",
                    choice=choice,
                    idempotency_key=uuid.uuid4(),
                )
            )
        return read_path(user, conversation)

    monkeypatch.setattr("chat.views.room.read_path", late)
    response = send(as_alice, room, form_of("Second", parent=answer.public_id.hex), **headers)

    (other,) = others
    shown = [other.message.parent.public_id.hex, other.message.public_id.hex]
    assert Patches(response).turns == shown
    assert "X-Room-List" not in response.headers


def test_an_accepted_send_renews_the_key(
    as_alice: Client, room: Room, form_of: Form, alice: User
) -> None:
    answer = room.turn(alice, "First")
    data = form_of("Second", parent=answer.public_id.hex)

    response = send(as_alice, room, data, **position(answer.parent, answer, room.conversation))

    keys = Patches(response).tree.xpath("//*[@hx-target='#composer-key']//input/@value")
    assert len(keys) == 1
    assert keys[0] != data["key"]


def test_other_words_under_a_used_key_are_refused_and_kept(
    as_alice: Client, room: Room, form_of: Form, alice: User
) -> None:
    answer = room.turn(alice, "First")
    data = form_of("Second", parent=answer.public_id.hex)
    send(as_alice, room, data)

    response = send(as_alice, room, {**data, "text": "Second, and more"})

    assert response.status_code == 409
    assert "had already been sent" in Patches(response).to("#composer-note")[0][1]
    assert Patches(response).to("#composer-key")
    assert "HX-Trigger" not in response.headers


def test_other_words_in_an_edit_under_a_used_key_are_refused(
    as_alice: Client, room: Room, form_of: Form, alice: User
) -> None:
    question = room.turn(alice, "First").parent
    address = reverse("message_edit", args=[question.public_id])
    data = form_of("Second")
    as_alice.post(address, data)

    again = as_alice.post(address, data)
    other = as_alice.post(address, {**data, "text": "Third"})

    assert again.status_code == 302
    assert other.status_code == 409
    assert "had already been sent" in other.content.decode()
    assert set(Message.objects.filter(role="user").values_list("text", flat=True)) == {
        "First",
        "Second",
    }


def test_a_key_that_was_used_for_something_else_tries_nothing_again(
    as_alice: Client, room: Room, form_of: Form, alice: User
) -> None:
    first = room.turn(alice, "First")
    second = room.turn(alice, "Second", first)
    data = form_of("")
    as_alice.post(reverse("message_retry", args=[second.public_id]), data)

    answer = as_alice.post(reverse("message_retry", args=[first.public_id]), data)

    assert answer.status_code == 409
    assert Message.objects.filter(parent=first.parent).count() == 1


def test_a_stale_parent_makes_a_branch_and_says_so(
    as_alice: Client, as_bob: Client, room: Room, form_of: Form, alice: User, bob: User
) -> None:
    answer = room.turn(alice, "First")
    room.turn(alice, "Second", answer)
    headers = position(answer.parent, answer, room.conversation)

    response = send(as_bob, room, form_of("Mine", parent=answer.public_id.hex), **headers)

    patches = Patches(response)
    mine = Message.objects.get(text="Mine")
    assert patches.turns[0] == mine.public_id.hex
    assert "branch beside theirs" in patches.to("#composer-note")[0][1]


def test_a_parent_of_another_conversation_is_refused(
    as_alice: Client, room: Room, form_of: Form, private_conversation: Conversation, alice: User
) -> None:
    elsewhere = Room(conversation=private_conversation, upstream=room.upstream)
    answer = elsewhere.turn(alice, "Elsewhere")

    response = send(as_alice, room, form_of(parent=answer.public_id.hex))

    assert response.status_code == 409
    assert not room.conversation.messages.exists()


def test_nothing_is_sent_below_an_answer_that_is_still_being_written(
    as_alice: Client, room: Room, form_of: Form, alice: User
) -> None:
    run = room.ask(alice, "First")

    response = send(as_alice, room, form_of(parent=run.message.public_id.hex))

    assert response.status_code == 409
    assert "still being written" in Patches(response).to("#composer-note")[0][1]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"text": " \n "}, "Write something first."),
        ({"key": "no key"}, "Reload the page"),
        ({"choice": f"{uuid.uuid4().hex}:m"}, "not available any more"),
        ({"choice": ""}, "not available any more"),
        ({"lmstudio-temperature": "7"}, "Temperature:"),
        ({"lmstudio-temperature": "nan"}, "Temperature:"),
        ({"lmstudio-temperature": "warm"}, "Temperature:"),
    ],
)
def test_what_cannot_be_sent_is_refused_in_a_sentence(
    as_alice: Client, room: Room, form_of: Form, change: dict[str, str], sentence: str
) -> None:
    response = send(as_alice, room, form_of() | change)

    assert response.status_code in (409, 422)
    assert sentence in Patches(response).to("#composer-note")[0][1]
    assert not Message.objects.exists()


def test_a_refusal_without_scripts_shows_the_page_with_the_words(
    as_alice: Client, room: Room, form_of: Form, alice: User
) -> None:
    run = room.ask(alice, "First")

    response = as_alice.post(
        address("conversation_send", room.conversation),
        form_of("Keep <these> words", parent=run.message.public_id.hex),
    )

    assert response.status_code == 409
    assert "Keep &lt;these&gt; words</textarea>" in response.content.decode()


def test_words_arrive_as_they_were_written(as_alice: Client, room: Room, form_of: Form) -> None:
    send(as_alice, room, form_of("  two\r\nlines\x00 "))

    assert Message.objects.get(role=Role.USER).text == "  two\nlines␀ "


def test_parameters_and_system_prompt_are_kept_with_the_run_and_the_conversation(
    as_alice: Client, room: Room, form_of: Form
) -> None:
    data = form_of(system_prompt="Be brief.")
    data |= {"lmstudio-temperature": "0.2", "lmstudio-top_k": "", "openai_chat-temperature": "9"}

    send(as_alice, room, data)

    run = Run.objects.get()
    room.conversation.refresh_from_db()
    assert (run.parameters, run.system_prompt) == ({"temperature": 0.2}, "Be brief.")
    assert room.conversation.parameters == {"temperature": 0.2}


def test_a_typed_model_wins_over_the_list(as_alice: Client, room: Room, form_of: Form) -> None:
    send(as_alice, room, form_of(typed_model="acme/new-model"))

    assert Run.objects.get().model == "acme/new-model"


def test_a_server_that_is_switched_off_cannot_be_chosen(
    as_alice: Client, room: Room, form_of: Form, upstream: Upstream
) -> None:
    Upstream.objects.update(is_enabled=False)

    response = send(as_alice, room, form_of())

    assert response.status_code == 422
    assert not Run.objects.exists()


def test_an_expired_session_leads_back_to_the_same_room(room: Room, form_of: Form) -> None:
    page = f"http://testserver{address('conversation', room.conversation)}"

    response = send(Client(), room, form_of(), **{"HX-Request": "true", "HX-Current-URL": page})

    assert response.status_code == 401
    target = response.headers["HX-Redirect"]
    assert target.startswith(reverse("account_login"))
    assert target.endswith(f"next=%2Fc%2F{room.conversation.public_id}%2F")


@pytest.mark.parametrize("url", ["https://elsewhere.example/c/", "//elsewhere.example/c/"])
def test_an_expired_session_never_leads_to_another_site(
    room: Room, form_of: Form, url: str
) -> None:
    response = send(Client(), room, form_of(), **{"HX-Request": "true", "HX-Current-URL": url})

    assert "elsewhere" not in response.headers["HX-Redirect"]


@pytest.fixture
def full_disk(transactional_db: None) -> Iterator[Callable[[], None]]:
    """Lets the database grow no further, as on a full disk."""

    def fill() -> None:
        with connection.cursor() as cursor:
            # Pages that other rows have left free would take the message in.
            cursor.execute("VACUUM")
            cursor.execute("PRAGMA page_count")
            (pages,) = cursor.fetchone()
            cursor.execute(f"PRAGMA max_page_count = {pages}")

    yield fill
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA max_page_count = 1073741823")


@pytest.mark.databases(only="sqlite")
def test_a_full_disk_refuses_the_send_and_keeps_the_draft(
    full_disk: Callable[[], None], as_alice: Client, room: Room, form_of: Form
) -> None:
    full_disk()

    response = send(as_alice, room, form_of("A long story. " * 20_000))

    assert response.status_code == 507
    assert "Your text is still here" in Patches(response).to("#composer-note")[0][1]
    assert "HX-Trigger" not in response.headers
    assert not Message.objects.exists()


def test_an_ended_answer_gives_the_send_button_back(
    as_alice: Client, room: Room, alice: User
) -> None:
    run = room.ask(alice, "First")
    hex_id = run.public_id.hex
    headers = position(
        run.message.parent,
        run.message,
        room.conversation,
        strip=hex_id,
        action=hex_id,
        open=[run.message.public_id.hex],
    )
    end_run(run)

    response = as_alice.get(address("conversation_changes", room.conversation), headers=headers)

    patches = Patches(response)
    assert patches.turns == []
    assert patches.to("#strip") == [("outerHTML", "")]
    assert "Stop" not in patches.to("#composer-action")[0][1]
    assert "Try again" in patches.to(f"#a{run.message.public_id.hex}")[0][1]
