"""Comparisons: several answers to one message, and the one that people go on with."""

from __future__ import annotations

import io
import uuid

import pytest
from django.test import Client
from django.urls import reverse

from chat import access
from chat.compare import actions
from chat.conversations.actions.messages import ModelChoice, choose_branch, send_message
from chat.conversations.compared_form import adapted
from chat.conversations.paths import read_path
from chat.core.errors import ActionRefused, QueueFull
from chat.exports.json_form import write_json
from chat.exports.reading import read_source
from chat.forks.actions import fork
from chat.imports.actions import import_file
from chat.message_queue.sending import advance
from chat.models import (
    BranchChoice,
    ComparedAnswer,
    Comparison,
    Conversation,
    Feedback,
    Message,
    Question,
    Run,
    RunStatus,
    Team,
    TitleRequest,
    Upstream,
    User,
)
from chat.questions import actions as question_actions
from chat.titles import queueing
from tests.compare.conftest import MODELS, Ask
from tests.support.rooms import HTMX, Room, end_run, text_of, url_of
from tests.support.tool_calls import end_waiting, item
from tests.titles.conftest import complete

pytestmark = pytest.mark.databases(slow=True)


def choose(user: User, run: Run) -> None:
    actions.choose(user, access.get_compared_answer(user, run.message.public_id))


def tail_of(room: Room, user: User) -> Message | None:
    conversation = access.get_conversation(user, room.conversation.public_id)
    return read_path(user, conversation).tail


# --- sending --------------------------------------------------------------------------------------


def test_form_makes_one_message_with_an_answer_of_each_model(room: Room, as_alice: Client) -> None:
    server = room.upstream.public_id.hex
    form = room.form(compare=[]) | {"compare": [f"{server}:demo/second", f"{server}:demo/third"]}

    responses = [room.send(as_alice, form) for _ in range(2)]

    assert [each.status_code for each in responses] == [200, 200]
    runs = Run.objects.order_by("message")
    assert [run.model for run in runs] == list(MODELS)
    assert {run.message.parent for run in runs} == {Message.objects.get(text=form["text"])}
    assert Comparison.objects.get().chosen is None
    assert str(runs[0].idempotency_key) == form["key"]


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        (["demo/second", "demo/second"], "Choose each model only once."),
        (["demo/model"], "Choose each model only once."),
        (["a", "b", "c", "d"], "You can compare at most 4 models."),
        ([""], "This model is no longer available."),
    ],
)
def test_models_are_checked(room: Room, as_alice: Client, values: list[str], sentence: str) -> None:
    server = room.upstream.public_id.hex
    form = room.form() | {"compare": [f"{server}:{value}" for value in values]}

    response = room.send(as_alice, form)

    assert response.status_code == 422
    assert sentence in response.content.decode()
    assert not Run.objects.exists()


def test_unknown_server_is_refused(room: Room, as_alice: Client) -> None:
    form = room.form() | {"compare": [f"{uuid.uuid4().hex}:demo/second"]}

    assert room.send(as_alice, form).status_code == 422
    assert not Message.objects.exists()


def test_first_message_of_a_conversation(room: Room, as_alice: Client) -> None:
    server = room.upstream.public_id.hex
    form = room.form(team=room.conversation.team.public_id.hex)
    form |= {"compare": [f"{server}:demo/second"]}

    response = as_alice.post(reverse("conversation_new"), form, headers=HTMX)

    assert response.status_code == 200
    assert [run.model for run in Run.objects.order_by("message")] == list(MODELS[:2])


def test_parameters_that_another_server_lacks_are_left_out_and_named(upstream: Upstream) -> None:
    other = Upstream(name="Other", dialect="anthropic_messages")
    choice = ModelChoice(
        upstream=upstream, model="one", parameters={"temperature": 0.5, "no_such": 1}
    )

    made = adapted(choice, other, "two")

    assert (made.upstream, made.model, dict(made.parameters)) == (
        other,
        "two",
        {"temperature": 0.5},
    )
    assert made.notes == ["The parameter no_such wasn’t sent, because this server doesn’t take it."]


def test_limit_of_answers_sends_nothing(room: Room, compare: Ask, settings: object) -> None:
    settings.RUNS_PER_PERSON = 2  # type: ignore[attr-defined]

    with pytest.raises(QueueFull):
        compare()

    assert not Message.objects.exists()


def test_message_that_compares_is_not_queued(room: Room, as_alice: Client) -> None:
    live = room.ask("First")
    server = room.upstream.public_id.hex
    form = room.form(parent=live.message) | {"compare": [f"{server}:demo/second"]}

    response = room.send(as_alice, form)

    assert response.status_code == 409
    assert "isn’t finished yet" in response.content.decode()
    assert Run.objects.count() == 1


# --- until somebody chooses -----------------------------------------------------------------------


def test_answers_stand_side_by_side_for_everybody(
    room: Room, compare: Ask, as_alice: Client, as_viewer: Client
) -> None:
    runs = compare()
    end_run(runs[0], "The first.")

    pages = [room.page(client) for client in (as_alice, as_viewer)]

    for page in pages:
        answers = page.xpath("//section[contains(@class,'column')]//*[@data-run]")
        assert [each.get("data-run") for each in answers] == [run.public_id.hex for run in runs]
        assert "2 of 3 answering…" in text_of(page.get_element_by_id("strip"))
    assert len(pages[0].xpath("//form[@data-choose]")) == 3
    assert pages[1].xpath("//form[@data-choose]") == []


def test_message_below_is_refused_and_nothing_is_queued(
    room: Room, compare: Ask, as_alice: Client
) -> None:
    runs = compare()
    for run in runs[:2]:
        end_run(run)

    for below in runs:
        response = room.send(as_alice, room.form("More", parent=below.message))

        assert response.status_code == 409
        assert "Choose the answer to continue with first." in response.content.decode()
    assert not room.conversation.queued_messages.exists()


def test_end_of_an_answer_changes_its_column_only(
    room: Room, compare: Ask, as_alice: Client
) -> None:
    runs = compare()
    shown = room.position(
        runs[2].message,
        compares=True,
        open=[run.message.public_id.hex for run in runs],
        runs={run.public_id.hex: 0 for run in runs},
    )
    end_run(runs[1])

    patches = room.changes(as_alice, shown)

    footers = {target for target in patches.targets if target.startswith("#a")}
    assert footers == {f"#a{runs[1].message.public_id.hex}"}
    assert patches.turns == []
    assert "2 of 3 answering…" in patches.text("#strip")


def test_stop_of_the_composer_stops_all(room: Room, compare: Ask, as_alice: Client) -> None:
    runs = compare()
    end_run(runs[0])

    response = as_alice.post(url_of("comparison_stop", runs[2].message), headers=HTMX)

    assert response.status_code == 204
    states = Run.objects.order_by("message").values_list("status", flat=True)
    assert list(states) == [RunStatus.COMPLETED, RunStatus.STOPPED, RunStatus.STOPPED]


# --- the choice -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 2])
def test_everybody_goes_on_with_the_chosen_answer(
    room: Room, compare: Ask, as_alice: Client, alice: User, viewer: User, number: int
) -> None:
    runs = compare()
    end_run(runs[0])
    shown = room.position(runs[2].message, compares=True)

    response = as_alice.post(url_of("answer_choose", runs[number].message), headers=shown)

    assert response.status_code == 200
    assert [tail_of(room, user) for user in (alice, viewer)] == [runs[number].message] * 2
    # Answers that were still written have stopped.
    for run in runs:
        run.refresh_from_db()
    others = [run.status for at, run in enumerate(runs) if at not in (0, number)]
    assert set(others) == {RunStatus.STOPPED}
    comparison = Comparison.objects.get()
    assert (comparison.chosen, comparison.chosen_by) == (runs[number].message, alice)
    room.conversation.refresh_from_db()
    assert room.conversation.model == MODELS[number]
    values = Feedback.objects.order_by("answer").values_list("value", flat=True)
    assert list(values) == [1 if at == number else -1 for at in range(3)]


@pytest.mark.parametrize("number", [0, 2])
def test_page_of_a_colleague_gets_the_ordinary_answer(
    room: Room, compare: Ask, alice: User, as_bob: Client, number: int
) -> None:
    runs = compare()
    for run in runs:
        end_run(run)
    shown = room.position(runs[2].message, compares=True)
    choose(alice, runs[number])

    patches = room.changes(as_bob, shown)

    assert patches.removed == [runs[2].message.public_id.hex]
    assert patches.turns == [runs[number].message.public_id.hex]
    assert "Show comparison" in patches.text("#turns")
    assert f"Version {number + 1}/ of 3" in patches.text("#turns")
    assert not BranchChoice.objects.exists()


def test_second_choice_is_told_of_the_first(
    room: Room, compare: Ask, alice: User, bob: User, as_bob: Client
) -> None:
    runs = compare()
    choose(alice, runs[0])
    choose(alice, runs[0])

    response = as_bob.post(url_of("answer_choose", runs[1].message), headers=HTMX)

    assert response.status_code == 409
    assert f"{alice.name} has already chosen another answer." in response.content.decode()


def test_choice_ends_private_views_and_later_ones_work(
    room: Room, compare: Ask, alice: User, viewer: User
) -> None:
    runs = compare()
    for run in runs:
        end_run(run)
    choose_branch(viewer, runs[1].message)

    choose(alice, runs[0])

    assert tail_of(room, viewer) == runs[0].message
    choose_branch(viewer, runs[1].message)
    assert tail_of(room, viewer) == runs[1].message
    assert tail_of(room, alice) == runs[0].message


def test_conversation_goes_on_below_the_chosen_answer(
    room: Room, compare: Ask, alice: User
) -> None:
    runs = compare()
    for run in runs:
        end_run(run)
    choose(alice, runs[0])

    answer = room.turn("And then?", below=runs[0].message)

    assert tail_of(room, alice) == answer


def test_later_attempt_is_the_newest_version(room: Room, compare: Ask, alice: User) -> None:
    runs = compare()
    for run in runs:
        end_run(run)
    choose(alice, runs[0])
    attempt = Message.objects.create(
        conversation=room.conversation, parent=runs[0].message.parent, role="assistant"
    )

    assert tail_of(room, alice) == attempt


def test_readers_see_the_comparison_and_cannot_choose(
    room: Room, compare: Ask, alice: User, as_viewer: Client
) -> None:
    runs = compare()
    for number, run in enumerate(runs):
        end_run(run, f"Words {number}")

    refused = as_viewer.post(url_of("answer_choose", runs[1].message), headers=HTMX)
    choose(alice, runs[0])
    response = as_viewer.get(url_of("comparison", runs[0].message))

    assert refused.status_code == 403
    words = response.content.decode()
    assert all(f"Words {number}" in words for number in range(3))
    assert f"{alice.name} chose the answer to continue with" in words
    assert "Continue with this answer" not in words


def test_message_of_a_program_below_an_undecided_answer_is_refused(
    room: Room, compare: Ask, alice: User
) -> None:
    runs = compare()

    with pytest.raises(ActionRefused, match="Choose the answer"):
        send_message(
            alice,
            room.conversation,
            parent=runs[1].message,
            text="More",
            choice=ModelChoice(upstream=room.upstream, model="demo/model"),
            idempotency_key=uuid.uuid4(),
        )


def test_answer_is_tried_again_only_after_the_choice(
    room: Room, compare: Ask, alice: User, as_alice: Client
) -> None:
    runs = compare()
    for run in runs:
        end_run(run)
    form = {"key": str(uuid.uuid4())}

    refused = as_alice.post(url_of("message_retry", runs[0].message), form, headers=HTMX)
    choose(alice, runs[0])
    done = as_alice.post(url_of("message_retry", runs[0].message), form, headers=HTMX)

    assert refused.status_code == 409
    assert "Choose the answer to continue with first." in refused.content.decode()
    assert done.status_code == 200
    assert Run.objects.count() == 4


def test_questions_of_all_columns_are_in_the_inbox_until_the_choice(
    room: Room, compare: Ask, alice: User
) -> None:
    runs = compare()
    for run in runs:
        end_run(run)
        Question.objects.create(
            conversation=room.conversation, run=run, kind="ask", ask_id="a", body={}
        )

    assert access.questions_for(alice).count() == 3
    choose(alice, runs[0])

    assert [each.run for each in access.questions_for(alice)] == [runs[0]]


# --- copies ---------------------------------------------------------------------------------------


def models_of(conversation: Conversation) -> list[str]:
    rows = ComparedAnswer.objects.filter(comparison__conversation=conversation)
    return list(rows.order_by("position").values_list("answer__runs__model", flat=True))


def test_fork_has_the_columns(room: Room, compare: Ask, alice: User, bob: User) -> None:
    answer = room.turn("Before")
    runs = compare(below=answer)
    for number, run in enumerate(runs):
        end_run(run, f"Words {number}")
    conversation = access.get_conversation(bob, room.conversation.public_id)

    copy = fork(bob, conversation, idempotency_key=uuid.uuid4())

    assert models_of(copy) == list(MODELS)
    path = read_path(bob, access.get_conversation(bob, copy.public_id))
    assert path.undecided is not None
    assert [place.count for place in path.places] == [1, 1, 1, 3]


def test_fork_leaves_out_answers_that_are_written(room: Room, compare: Ask, alice: User) -> None:
    answer = room.turn("Before")
    runs = compare(below=answer)
    end_run(runs[2])
    conversation = access.get_conversation(alice, room.conversation.public_id)

    copy = fork(alice, conversation, idempotency_key=uuid.uuid4())

    assert copy.messages.count() == 2
    assert models_of(copy) == []


@pytest.mark.parametrize("is_chosen", [False, True])
def test_export_and_import_keep_the_comparison(
    room: Room, compare: Ask, alice: User, team: Team, is_chosen: bool
) -> None:
    runs = compare()
    for run in runs:
        end_run(run)
    if is_chosen:
        choose(alice, runs[1])
    conversation = access.get_conversation(alice, room.conversation.public_id)
    content = b"".join(write_json(read_source(alice, conversation)))

    report = import_file(alice, team, io.BytesIO(content))

    assert (report.created, report.not_understood) == (1, [])
    made = Conversation.objects.exclude(pk=room.conversation.pk).get()
    assert models_of(made) == list(MODELS)
    chosen = Comparison.objects.get(conversation=made).chosen
    assert (chosen and chosen.runs.get().model) == (MODELS[1] if is_chosen else None)


# --- tools and titles -----------------------------------------------------------------------------


def test_column_goes_on_when_its_tool_has_a_result(
    room: Room, compare: Ask, alice: User, as_alice: Client
) -> None:
    runs = compare()
    end_run(runs[0])
    [call] = end_waiting(runs[1], item())
    shown = room.position(
        runs[2].message,
        compares=True,
        open=[run.message.public_id.hex for run in runs[1:]],
        runs={run.public_id.hex: int(run == runs[1]) for run in runs},
    )
    page = room.page(as_alice)
    assert "1 of 3 answering…" in text_of(page.get_element_by_id("strip"))

    question_actions.give_result(alice, call, "Three.")
    patches = room.changes(as_alice, shown)

    went_on = Run.objects.get(message=runs[1].message, position=1)
    [(swap, _)] = patches.to(f"#runs-{runs[1].message.public_id.hex}")
    assert swap == "beforeend"
    assert went_on.public_id.hex in patches.response.content.decode()
    assert "2 of 3 answering…" in patches.text("#strip")


def test_title_is_asked_for_once(room: Room, compare: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queueing, "_is_on", True)
    Conversation.objects.update(has_automatic_title=True)

    for run in reversed(compare()):
        complete(run)

    assert TitleRequest.objects.count() == 1


def test_deleted_conversation_takes_its_comparison_with_it(
    room: Room, compare: Ask, alice: User
) -> None:
    runs = compare()
    choose(alice, runs[0])

    room.conversation.delete()

    assert not ComparedAnswer.objects.exists()


# --- the queue of messages ------------------------------------------------------------------------


def test_message_waits_for_the_chosen_answer_and_for_no_other(
    room: Room, compare: Ask, alice: User, as_bob: Client
) -> None:
    runs = compare()
    choose(alice, runs[0])
    room.send(as_bob, room.form("Next", parent=runs[0].message))
    queued = room.conversation.queued_messages.get()

    Run.objects.filter(pk=runs[0].pk).update(status=RunStatus.FAILED)
    while advance(room.conversation.pk):
        pass

    queued.refresh_from_db()
    assert queued.after == runs[0].message
    end_run(runs[0])
    assert advance(room.conversation.pk)
    assert Message.objects.get(text="Next").parent == runs[0].message


@pytest.mark.parametrize("is_chosen", [False, True])
def test_page_that_is_behind_writes_below_the_chosen_answer(
    room: Room, compare: Ask, alice: User, as_bob: Client, is_chosen: bool
) -> None:
    answer = room.turn("Before")
    runs = compare(below=answer)
    for run in runs:
        end_run(run)
    if is_chosen:
        choose(alice, runs[0])

    response = room.send(as_bob, room.form("Next", parent=answer))

    if is_chosen:
        queued = room.conversation.queued_messages.first()
        sent = Message.objects.filter(text="Next").first()
        assert (queued.after if queued else sent.parent) == runs[0].message  # type: ignore[union-attr]
    else:
        assert "Choose the answer to continue with first." in response.content.decode()
        assert not room.conversation.queued_messages.exists()
