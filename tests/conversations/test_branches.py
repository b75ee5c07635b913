"""Editing a message, trying again, choosing a branch, and stopping an answer."""

from __future__ import annotations

import base64
import uuid

import pytest
from django.test import Client

from chat import events
from chat.core.errors import ActionRefused
from chat.models import BranchChoice, Message, Role, Run, User
from tests.support.rooms import HTMX, Patches, Room, end_run, end_run_with, message_log, url_of


def shown(client: Client, room: Room) -> list[str]:
    """The texts of people on the page."""
    page = room.source(client)
    messages = room.conversation.messages.filter(role=Role.USER).order_by("pk")
    return [one.text for one in messages if f'data-turn="{one.public_id.hex}"' in page]


def test_edit_adds_a_sibling_with_its_own_answer(as_alice: Client, room: Room) -> None:
    question = room.turn("First").parent

    response = as_alice.post(url_of("message_edit", question), room.form("Better"), headers=HTMX)

    edited = Message.objects.get(text="Better")
    assert response.status_code == 200
    assert edited.parent_id == question.parent_id
    assert shown(as_alice, room) == ["Better"]


def test_edit_replaces_the_old_turns_on_the_page(as_alice: Client, room: Room) -> None:
    first = room.turn("First")
    second = room.turn("Second", first)
    headers = room.position(second, first.parent)

    patches = Patches(
        as_alice.post(
            url_of("message_edit", second.parent), room.form("Second, better"), headers=headers
        )
    )

    edited = Message.objects.get(text="Second, better")
    assert set(patches.removed) == {second.parent.public_id.hex, second.public_id.hex}
    assert patches.turns[0] == edited.public_id.hex
    assert patches.swaps("#turns") == ["beforeend"]


def test_edit_without_a_model_uses_that_of_the_conversation(as_alice: Client, room: Room) -> None:
    question = room.turn("First").parent

    response = as_alice.post(
        url_of("message_edit", question), {"text": "Better", "key": str(uuid.uuid4())}
    )

    assert response.status_code == 302
    assert Run.objects.latest("pk").model == "demo/model"


def test_answer_cannot_be_edited(as_alice: Client, room: Room) -> None:
    answer = room.turn("First")

    response = as_alice.post(url_of("message_edit", answer), room.form("Mine now"), headers=HTMX)

    assert response.status_code == 409
    assert Patches(response).to(f"#e{answer.public_id.hex}")


def test_edit_form_holds_the_text_and_can_be_canceled(as_alice: Client, room: Room) -> None:
    url = url_of("message_edit", room.turn("First <b>").parent)

    form = as_alice.get(url, headers=HTMX).content.decode()
    canceled = as_alice.get(f"{url}?cancel", headers=HTMX).content.decode()

    assert "First &lt;b&gt;</textarea>" in form
    assert "<form" not in canceled


def test_retry_adds_a_sibling_answer_for_everybody(
    as_alice: Client, as_bob: Client, room: Room
) -> None:
    answer = room.turn("First")

    as_alice.post(url_of("message_retry", answer), room.form(), headers=HTMX)

    again = Run.objects.latest("pk").message
    page = room.source(as_bob)
    assert again.parent_id == answer.parent_id
    assert again.public_id.hex in page
    assert f'id="m{answer.public_id.hex}"' not in page


def test_retry_with_the_same_key_runs_once(as_alice: Client, room: Room) -> None:
    answer = room.turn("First")
    data = room.form()

    for _ in range(2):
        as_alice.post(url_of("message_retry", answer), data, headers=HTMX)

    assert Run.objects.count() == 2


# --- choosing a branch ----------------------------------------------------------------------


def test_each_person_chooses_their_own_branch(as_alice: Client, as_bob: Client, room: Room) -> None:
    one = room.turn("One").parent
    two = room.turn("Two")

    as_bob.post(url_of("message_show", one))

    assert shown(as_bob, room) == ["One"]
    assert shown(as_alice, room) == ["Two"]
    assert two.parent.text == "Two"


def test_viewer_can_choose_a_branch(as_viewer: Client, room: Room) -> None:
    one = room.turn("One").parent
    room.turn("Two")

    response = as_viewer.post(url_of("message_show", one), headers=HTMX)

    assert response.status_code == 200
    assert BranchChoice.objects.count() == 1
    assert shown(as_viewer, room) == ["One"]


def test_siblings_are_numbered(as_alice: Client, room: Room) -> None:
    room.turn("One")
    room.turn("Two")

    page = room.source(as_alice)

    assert 'aria-label="Version 1 of 2"' in page
    assert 'aria-label="Version 3 of 2"' not in page


def test_new_sibling_updates_the_number_on_other_pages(as_bob: Client, room: Room) -> None:
    answer = room.turn("One")
    as_bob.post(url_of("message_show", answer.parent))
    headers = room.position(answer)
    end_run(room.ask("Two"))

    patches = room.changes(as_bob, headers)

    assert patches.turns == []
    assert "of 2" in patches.text(f"#a{answer.parent.public_id.hex}")


def test_source_of_a_message_is_its_markdown(as_bob: Client, room: Room) -> None:
    run = room.ask("First *words*")
    end_run(run, "An **answer**.")

    answer = as_bob.get(url_of("message_source", run.message))
    question = as_bob.get(url_of("message_source", run.message.parent))

    assert answer.content.decode() == "An **answer**."
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert question.content.decode() == "First *words*"


@pytest.mark.parametrize("between", ["", "\n", "\n\n"])
def test_copied_text_has_a_blank_line_where_an_artifact_stands(
    as_bob: Client, room: Room, between: str
) -> None:
    run = room.ask("Write it down.")
    end_run_with(
        run,
        [
            *message_log(f"Here it is.{between}")[:-1],
            events.ArtifactUpdate(op="created", artifact_id="a", title="Levels", content="1.2"),
            events.MessageDelta(item=0, content="Both "),
            events.MessageDelta(item=0, content="stay."),
            events.MessageEnd(item=0),
        ],
    )

    copied = as_bob.get(url_of("message_source", run.message)).content.decode()

    assert copied == "Here it is.\n\nBoth stay."


def test_answer_with_an_artifact_and_a_picture_is_copied(as_bob: Client, room: Room) -> None:
    run = room.ask("Draw it.")
    picture = base64.b64encode(b"no picture").decode()
    end_run_with(
        run,
        [
            *message_log("Here it is."),
            events.ArtifactUpdate(op="created", artifact_id="a", title="Levels", content="1.2"),
            events.MediaUpdate(item=1, media_id="m", media_type="image/png", data=picture),
        ],
    )

    copied = as_bob.get(url_of("message_source", run.message)).content.decode()

    assert copied == "Here it is."


# --- stopping -------------------------------------------------------------------------------


def test_queued_run_is_stopped_at_once(as_bob: Client, room: Room) -> None:
    run = room.ask("First")
    headers = room.live_position(run)

    response = as_bob.post(url_of("run_stop", run), headers=headers)

    run.refresh_from_db()
    assert run.status == "stopped"
    assert response.status_code == 204
    changes = room.changes(as_bob, headers)
    assert 'aria-label="Send"' in changes.response.content.decode()


def test_running_run_shows_that_it_is_stopping(as_alice: Client, room: Room) -> None:
    run = room.ask("First")
    Run.objects.update(status="running")
    headers = room.live_position(run)

    response = as_alice.post(url_of("run_stop", run), headers=headers)

    # The page that asked shows it by itself until it fetches changes for another reason.
    assert (response.status_code, response.content) == (204, b"")
    assert "HX-Trigger" not in response.headers
    assert "Stopping" in room.changes(as_alice, headers).text("#composer-action")


def test_stopping_an_ended_run_fetches_the_changes(as_alice: Client, room: Room) -> None:
    run = room.ask("First")
    end_run(run, "All of it.")

    response = as_alice.post(url_of("run_stop", run), headers=HTMX)

    assert response.status_code == 204
    assert response.headers["HX-Trigger"] == "room:changed"


def test_stopping_without_scripts_redirects(as_alice: Client, room: Room, alice: User) -> None:
    run = room.ask("First")
    Run.objects.update(status="running")

    response = as_alice.post(url_of("run_stop", run))

    assert response.status_code == 302
    assert response.url == room.url
    run.refresh_from_db()
    assert run.stop_requested_by == alice


def test_refused_stop_shows_the_reason(
    as_alice: Client, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bool:
        raise ActionRefused("Not now.")

    run = room.ask("First")
    monkeypatch.setattr("chat.conversations.actions.conversation.stop_run", refuse)

    response = as_alice.post(url_of("run_stop", run), headers=HTMX)

    assert response.status_code == 409
    assert "Not now." in Patches(response).text("#composer-note")
