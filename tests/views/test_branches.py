from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest
from django.test import Client

from chat.actions.errors import ActionRefused
from chat.models import BranchChoice, Message, Role, Run, User
from tests.views.conftest import HTMX, Patches, Room, address, end_run, position

Form = Callable[..., dict[str, str]]


def shown(client: Client, room: Room) -> list[str]:
    """The turns on the page, by their words (a person's) or by their id (answers)."""
    page = client.get(address("conversation", room.conversation)).content.decode()
    return [turn.text for turn in _messages(room) if f'data-turn="{turn.public_id.hex}"' in page]


def _messages(room: Room) -> list[Message]:
    return list(room.conversation.messages.filter(role=Role.USER).order_by("pk"))


def test_an_edit_is_a_sibling_with_its_own_answer(
    as_alice: Client, room: Room, form_of: Form, alice: User
) -> None:
    answer = room.turn(alice, "First")
    question = answer.parent

    response = as_alice.post(address("message_edit", question), form_of("Better"), headers=HTMX)

    edited = Message.objects.get(text="Better")
    assert response.status_code == 200
    assert edited.parent_id == question.parent_id
    assert shown(as_alice, room) == ["Better"]


def test_an_edit_takes_the_old_turns_off_the_page_and_brings_the_new_ones(
    as_alice: Client, room: Room, form_of: Form, alice: User
) -> None:
    first = room.turn(alice, "First")
    second = room.turn(alice, "Second", first)
    headers = position(first.parent, second, room.conversation)

    response = as_alice.post(
        address("message_edit", second.parent), form_of("Second, better"), headers=headers
    )

    patches = Patches(response)
    edited = Message.objects.get(text="Second, better")
    assert set(patches.removed) == {second.parent.public_id.hex, second.public_id.hex}
    assert patches.turns[0] == edited.public_id.hex
    assert [swap for swap, _ in patches.to("#turns")] == ["beforeend"]


def test_an_edit_without_a_choice_uses_what_the_conversation_remembers(
    as_alice: Client, room: Room, alice: User
) -> None:
    answer = room.turn(alice, "First")

    response = as_alice.post(
        address("message_edit", answer.parent), {"text": "Better", "key": str(uuid.uuid4())}
    )

    assert response.status_code == 302
    assert Run.objects.latest("pk").model == "demo/model"


def test_an_edit_of_an_answer_is_refused(
    as_alice: Client, room: Room, form_of: Form, alice: User
) -> None:
    answer = room.turn(alice, "First")

    response = as_alice.post(address("message_edit", answer), form_of("Mine now"), headers=HTMX)

    assert response.status_code == 409
    assert Patches(response).to(f"#e{answer.public_id.hex}")


def test_the_form_of_an_edit_holds_the_words_and_can_be_left(
    as_alice: Client, room: Room, alice: User
) -> None:
    question = room.turn(alice, "First <b>").parent

    form = as_alice.get(address("message_edit", question), headers=HTMX).content.decode()
    words = as_alice.get(address("message_edit", question) + "?cancel", headers=HTMX)

    assert "First &lt;b&gt;</textarea>" in form
    assert "<form" not in words.content.decode()


def test_try_again_makes_a_sibling_answer_and_everybody_sees_it(
    as_alice: Client, as_bob: Client, room: Room, form_of: Form, alice: User
) -> None:
    answer = room.turn(alice, "First")

    as_alice.post(address("message_retry", answer), form_of(), headers=HTMX)

    again = Run.objects.latest("pk").message
    page = as_bob.get(address("conversation", room.conversation)).content.decode()
    assert again.parent_id == answer.parent_id
    assert again.public_id.hex in page
    assert f'id="m{answer.public_id.hex}"' not in page


def test_try_again_twice_with_one_key_asks_once(
    as_alice: Client, room: Room, form_of: Form, alice: User
) -> None:
    answer = room.turn(alice, "First")
    data = form_of()

    for _ in range(2):
        as_alice.post(address("message_retry", answer), data, headers=HTMX)

    assert Run.objects.count() == 2


def test_the_chosen_branch_is_each_persons_own(
    as_alice: Client, as_bob: Client, room: Room, alice: User
) -> None:
    room.turn(alice, "One")
    two = room.turn(alice, "Two")
    one = Message.objects.get(text="One")

    as_bob.post(address("message_show", one))

    assert shown(as_bob, room) == ["One"]
    assert shown(as_alice, room) == ["Two"]
    assert two.parent.text == "Two"


def test_a_viewer_may_look_at_another_branch(as_viewer: Client, room: Room, alice: User) -> None:
    room.turn(alice, "One")
    room.turn(alice, "Two")
    one = Message.objects.get(text="One")

    response = as_viewer.post(address("message_show", one), headers=HTMX)

    assert response.status_code == 200
    assert BranchChoice.objects.count() == 1
    assert shown(as_viewer, room) == ["One"]


def test_siblings_are_marked_with_their_place(as_alice: Client, room: Room, alice: User) -> None:
    room.turn(alice, "One")
    room.turn(alice, "Two")

    page = as_alice.get(address("conversation", room.conversation)).content.decode()

    assert 'aria-label="Version 1 of 2"' in page
    assert 'aria-label="Version 3 of 2"' not in page


def test_a_colleagues_new_sibling_changes_the_mark_of_the_turn_one_looks_at(
    as_bob: Client, room: Room, alice: User
) -> None:
    answer = room.turn(alice, "One")
    one = answer.parent
    as_bob.post(address("message_show", one))
    headers = position(one, answer, room.conversation)
    end_run(room.ask(alice, "Two"))

    response = as_bob.get(address("conversation_changes", room.conversation), headers=headers)

    patches = Patches(response)
    assert patches.turns == []
    assert "of 2" in patches.to(f"#a{one.public_id.hex}")[0][1]


def test_copying_gives_the_markdown_of_an_answer_and_the_words_of_a_person(
    as_bob: Client, room: Room, alice: User
) -> None:
    run = room.ask(alice, "First *words*")
    end_run(run, "An **answer**.")

    answer = as_bob.get(address("message_source", run.message))
    words = as_bob.get(address("message_source", run.message.parent))

    assert answer.content.decode() == "An **answer**."
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert words.content.decode() == "First *words*"


def test_a_queued_run_that_is_stopped_ends_at_once(as_bob: Client, room: Room, alice: User) -> None:
    run = room.ask(alice, "First")
    hex_id = run.public_id.hex
    headers = position(
        run.message.parent, run.message, room.conversation, strip=hex_id, action=hex_id
    )

    response = as_bob.post(address("run_stop", run), headers=headers)

    run.refresh_from_db()
    assert run.status == "stopped"
    assert response.status_code == 204
    room.conversation.refresh_from_db()
    changed = as_bob.get(address("conversation_changes", room.conversation), headers=headers)
    assert 'aria-label="Send"' in changed.content.decode()


def test_a_running_run_that_is_stopped_says_stopping(
    as_alice: Client, room: Room, alice: User
) -> None:
    run = room.ask(alice, "First")
    Run.objects.update(status="running")
    hex_id = run.public_id.hex
    headers = position(
        run.message.parent, run.message, room.conversation, strip=hex_id, action=hex_id
    )

    response = as_alice.post(address("run_stop", run), headers=headers)

    # The page that asked shows it by itself until it fetches changes for another reason.
    assert (response.status_code, response.content) == (204, b"")
    assert "HX-Trigger" not in response.headers
    changed = as_alice.get(address("conversation_changes", room.conversation), headers=headers)
    assert "Stopping" in Patches(changed).to("#composer-action")[0][1]


def test_whoever_stops_what_is_over_fetches_what_their_page_lacks(
    as_alice: Client, room: Room, alice: User
) -> None:
    run = room.ask(alice, "First")
    end_run(run, "All of it.")

    response = as_alice.post(address("run_stop", run), headers=HTMX)

    assert response.status_code == 204
    assert response.headers["HX-Trigger"] == "room:changed"


def test_stopping_without_scripts_leads_back_to_the_room(
    as_alice: Client, room: Room, alice: User
) -> None:
    run = room.ask(alice, "First")
    Run.objects.update(status="running")

    response = as_alice.post(address("run_stop", run))

    assert response.status_code == 302
    assert response.url == address("conversation", room.conversation)
    run.refresh_from_db()
    assert run.stop_requested_by == alice


def test_a_stop_that_cannot_be_stored_is_a_sentence_and_not_silence(
    as_alice: Client, room: Room, alice: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> bool:
        raise ActionRefused("Not now.")

    run = room.ask(alice, "First")
    monkeypatch.setattr("chat.actions.conversations.stop_run", full)

    response = as_alice.post(address("run_stop", run), headers=HTMX)

    assert response.status_code == 409
    assert "Not now." in Patches(response).to("#composer-note")[0][1]
