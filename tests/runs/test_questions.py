"""Replies to what a run waits for: once each, by whoever may, and the answer goes on."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, connection
from django.http import Http404
from django.utils import timezone

from chat import access
from chat import events as canonical
from chat.actions import conversations as verbs
from chat.actions import outcomes, questions
from chat.actions.continuing import NOT_RUN, REFUSED, read_inputs
from chat.actions.conversations import ModelChoice
from chat.actions.errors import ActionRefused
from chat.models import (
    AuditEvent,
    Conversation,
    Message,
    Question,
    QuestionStatus,
    Run,
    RunStatus,
    Team,
    Upstream,
    User,
)
from tests.runs.waiting import ask, asking, call, ended, result_of, runs_of


@pytest.fixture
def run(alice: User, conversation: Conversation, upstream: Upstream) -> Run:
    return asking(alice, conversation, upstream)


def only(run: Run) -> Question:
    return Question.objects.select_related("run__upstream", "conversation").get(run=run)


def waiting_for(run: Run, **members: object) -> Question:
    """The question of a run that ends with it."""
    ended(run, result_of(asks=(ask(**members),), reason="ask"))
    return only(run)


# --- what is asked -------------------------------------------------------------------------


def test_each_call_that_waits_becomes_a_question(run: Run) -> None:
    ended(run, result_of(call("c1", city="Oslo"), canonical.MessageItem(content="."), call("c2")))

    rows = list(run.questions.all())

    assert [(row.kind, row.position, row.ask_id, row.status) for row in rows] == [
        ("tool", 0, "c1", "open"),
        ("tool", 2, "c2", "open"),
    ]
    assert rows[0].body["arguments"] == {"city": "Oslo"}


def test_calls_that_cannot_be_run_by_us_are_never_offered(run: Run) -> None:
    broken = canonical.InvalidToolCallItem(
        reason="not JSON",
        metadata=canonical.FailureMetadata(type="invalid_arguments", tool_name="weather"),
    )
    builtin = canonical.ToolCallItem(
        tool="search",
        arguments={},
        status="pending",
        provider_info=canonical.ProviderInfo(type="builtin"),
    )
    done = canonical.ToolCallItem(tool="search", arguments={}, output="found")
    ended(run, result_of(broken, builtin, done, call("c1")))

    assert [row.ask_id for row in run.questions.all()] == ["c1"]


def test_a_model_s_question_is_asked_once_and_not_as_its_call_again(run: Run) -> None:
    ended(run, result_of(call("c1", "ask_user"), call("c2"), asks=(ask("a1", call_id="c1"),)))

    kinds = [(row.kind, row.ask_id) for row in run.questions.order_by("kind")]

    assert kinds == [("ask", "a1"), ("tool", "c2")]


@pytest.mark.parametrize("status", ["completed", "stopped", "cut", "failed", "interrupted"])
def test_a_run_that_does_not_wait_asks_nothing(run: Run, status: canonical.Status) -> None:
    ended(run, result_of(call("c1"), status=status))

    assert not run.questions.exists()


@pytest.mark.parametrize(
    "ids", [("", ""), (None, None), ("same", "same"), ("x" * 300, "x" * 300), ("ü" * 500, "")]
)
def test_odd_ids_keep_nothing_from_being_asked(run: Run, ids: tuple[str | None, ...]) -> None:
    ended(run, result_of(*(call(call_id) for call_id in ids)))

    assert [row.position for row in run.questions.all()] == [0, 1]


def test_nobody_is_asked_thousands_of_questions(run: Run, alice: User) -> None:
    over = ended(run, result_of(*(call(str(number)) for number in range(5000))))

    assert run.questions.count() == outcomes.MOST_QUESTIONS
    inputs = read_inputs(questions.go_on_without(alice, over))
    assert [given.position for given in inputs] == list(range(5000))
    assert {given.output for given in inputs} == {NOT_RUN}


def test_what_cannot_be_recorded_keeps_no_run_from_ending(
    run: Run, alice: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(run: Run, result: canonical.Result) -> None:
        Question.objects.create(run=run, conversation=run.conversation, kind="tool", ask_id="half")
        raise ValueError("a surprise")

    monkeypatch.setattr(outcomes, "STEPS", (broken,))
    over = ended(run, result_of(call("c1")))

    assert over.status == "waiting"
    assert not run.questions.exists()
    assert "run.outcome_lost" in caplog.text
    assert "a surprise" not in caplog.text
    assert [given.output for given in read_inputs(questions.go_on_without(alice, over))] == [
        NOT_RUN
    ]


def test_what_the_database_will_never_take_keeps_no_run_from_ending(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def greedy(run: Run, result: canonical.Result) -> None:
        list(Question.objects.filter(pk__in=range(300_000)))

    monkeypatch.setattr(outcomes, "STEPS", (greedy, outcomes.ask_people))
    over = ended(run, result_of(call("c1")))

    assert over.status == "waiting"
    assert run.questions.count() == 1
    assert "run.outcome_lost" in caplog.text


@pytest.mark.parametrize("words", ["database is locked", "database or disk is full"])
def test_a_database_that_is_away_loses_nothing_of_an_ending(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    def unlucky(run: Run, result: canonical.Result) -> None:
        raise OperationalError(words)

    monkeypatch.setattr(outcomes, "STEPS", (unlucky,))

    with pytest.raises(OperationalError):
        ended(run, result_of(call("c1")))


# --- settling ------------------------------------------------------------------------------


def test_the_last_result_queues_the_run_that_goes_on(run: Run, alice: User, bob: User) -> None:
    ended(run, result_of(call("c1"), call("c2")))
    first, second = run.questions.select_related("run__upstream", "conversation")

    assert questions.give_result(alice, first, "Rain") is None
    follow_up = questions.give_result(bob, second, "Storm", is_error=True)

    assert follow_up is not None
    assert (follow_up.message_id, follow_up.position) == (run.message_id, 1)
    assert (follow_up.model, follow_up.upstream_id) == (run.model, run.upstream_id)
    assert follow_up.requested_by == bob
    assert [(g.output, g.is_error, g.by) for g in read_inputs(follow_up)] == [
        ("Rain", False, "Alice"),
        ("Storm", True, "Bob"),
    ]


def test_a_refusal_is_told_to_the_model_with_its_reason(run: Run, alice: User) -> None:
    ended(run, result_of(call("c1")))

    follow_up = questions.refuse(alice, only(run), "Too far away.")

    (given,) = read_inputs(follow_up)
    assert (given.outcome, given.is_error) == ("declined", True)
    assert given.output == f"{REFUSED} Too far away."
    assert only(run).status == QuestionStatus.DECLINED


def test_going_on_without_settles_everything_that_is_open(run: Run, alice: User, bob: User) -> None:
    over = ended(run, result_of(call("c1"), call("c2"), asks=(ask(),)))
    done = run.questions.select_related("run__upstream", "conversation").get(ask_id="c1")
    questions.give_result(bob, done, "Rain")

    follow_up = questions.go_on_without(alice, over)

    assert [(g.kind, g.outcome) for g in read_inputs(follow_up)] == [
        ("tool", "answered"),
        ("tool", "not_run"),
        ("ask", "not_run"),
    ]
    statuses = run.questions.order_by("pk").values_list("status", flat=True)
    assert list(statuses) == ["answered", "expired", "expired"]


def test_going_on_twice_is_going_on_once(run: Run, alice: User, bob: User) -> None:
    over = ended(run, result_of(call("c1")))
    follow_up = questions.go_on_without(alice, over)

    assert questions.go_on_without(alice, over) == follow_up
    with pytest.raises(ActionRefused, match="already gone on"):
        questions.go_on_without(bob, over)


@pytest.mark.parametrize("status", ["completed", "incomplete", "stopped"])
def test_an_answer_that_waits_for_nothing_does_not_go_on(
    run: Run, alice: User, status: canonical.Status
) -> None:
    over = ended(run, result_of(status=status, reason="stop"))

    with pytest.raises(ActionRefused, match="does not wait"):
        questions.go_on_without(alice, over)


def test_a_double_click_answers_once_and_gives_the_same_run(run: Run, alice: User) -> None:
    ended(run, result_of(call("c1")))
    question = only(run)

    first = questions.give_result(alice, question, "Rain")

    assert questions.give_result(alice, question, "Rain") == first
    assert len(runs_of(run.message)) == 2


def test_whoever_comes_second_is_told_who_was_first(run: Run, alice: User, bob: User) -> None:
    ended(run, result_of(call("c1")))
    question = only(run)
    questions.give_result(bob, question, "Rain")

    with pytest.raises(ActionRefused, match="Bob was first"):
        questions.give_result(alice, question, "Sun")
    with pytest.raises(ActionRefused, match="Bob was first"):
        questions.refuse(bob, question)

    assert only(run).answer == {"output": "Rain", "is_error": False}


def test_an_answer_changes_the_room_and_the_message(run: Run, alice: User) -> None:
    ended(run, result_of(call("c1"), call("c2")))
    question = run.questions.select_related("run__upstream", "conversation").first()
    before = Conversation.objects.get(pk=run.conversation_id).revision

    questions.give_result(alice, question, "Rain")

    after = Conversation.objects.get(pk=run.conversation_id).revision
    assert after > before
    assert Message.objects.get(pk=run.message_id).revision == after


def test_an_approval_is_given_or_declined_and_leaves_a_row(run: Run, alice: User) -> None:
    asks = (ask("p1", style="approval"), ask("p2", style="approval"))
    ended(run, result_of(asks=asks, reason="ask"))
    first, second = run.questions.select_related("run__upstream", "conversation")

    questions.approve(alice, first, is_approved=True)
    follow_up = questions.approve(alice, second, is_approved=False, reason="Not that one")

    assert [(g.outcome, g.text) for g in read_inputs(follow_up)] == [
        ("answered", ""),
        ("declined", "Not that one"),
    ]
    verbs = AuditEvent.objects.order_by("pk").values_list("verb", flat=True)
    assert list(verbs) == ["question.approved", "question.declined"]


def test_a_question_is_not_answered_as_another_kind(run: Run, alice: User) -> None:
    question = waiting_for(run)

    with pytest.raises(ActionRefused):
        questions.give_result(alice, question, "Rain")
    with pytest.raises(ActionRefused):
        questions.approve(alice, question, is_approved=True)


def test_only_the_size_of_a_result_is_checked(run: Run, alice: User, settings: object) -> None:
    settings.TOOL_RESULT_BYTES = 10
    ended(run, result_of(call("c1")))
    question = only(run)

    with pytest.raises(ActionRefused, match="11 bytes"):
        questions.give_result(alice, question, "äääää1")

    assert only(run).status == "open"
    assert questions.give_result(alice, question, "{]\x00<b>") is not None
    assert only(run).answer["output"] == "{]\u2400<b>"


# --- what fits -----------------------------------------------------------------------------

CHOICE = {"fields": [{"name": "bank", "options": ["left", "right"]}]}
COLOURS = {"options": ["Red", {"label": "Deep blue", "value": "blue"}]}
FORM = {"fields": [{"name": "city", "label": "City", "required": True}, {"name": "day"}]}


def test_options_and_fields_are_read_in_whatever_form_they_come(run: Run) -> None:
    question = waiting_for(
        run, options=["Red", 7, {"id": "b", "text": "Blue"}, None, "Red"], **FORM
    )

    offered = [(option.value, option.label) for option in questions.options_of(question)]

    assert offered == [("Red", "Red"), ("7", "7"), ("b", "Blue")]
    assert [(f.name, f.label, f.is_required) for f in questions.fields_of(question)] == [
        ("city", "City", True),
        ("day", "day", False),
    ]


@pytest.mark.parametrize(
    ("offer", "reply"),
    [
        pytest.param({}, {"text": "Whichever"}, id="words where nothing is offered"),
        pytest.param(COLOURS, {"selected": ["blue"]}, id="one option"),
        pytest.param(
            {**COLOURS, "multi_select": True}, {"selected": ["Red", "blue"]}, id="several"
        ),
        pytest.param({**COLOURS, "allow_free_text": True}, {"text": "Green"}, id="own words"),
        pytest.param(FORM, {"fields": {"city": "Oslo"}}, id="a form"),
    ],
)
def test_a_reply_that_fits_is_taken(
    run: Run, alice: User, offer: dict[str, object], reply: dict[str, object]
) -> None:
    question = waiting_for(run, **offer)

    follow_up = questions.answer(alice, question, **reply)

    (given,) = read_inputs(follow_up)
    assert given.text == reply.get("text", "")
    assert list(given.selected) == reply.get("selected", [])
    assert given.fields == reply.get("fields", {})


@pytest.mark.parametrize(
    ("offer", "reply"),
    [
        pytest.param({}, {"text": "  "}, id="nothing"),
        pytest.param(COLOURS, {}, id="no option"),
        pytest.param(COLOURS, {"selected": ["Green"]}, id="another option"),
        pytest.param(COLOURS, {"selected": ["Deep blue"]}, id="the label of an option"),
        pytest.param(COLOURS, {"selected": ["Red", "blue"]}, id="two of one"),
        pytest.param(COLOURS, {"text": "Green"}, id="words where there are options"),
        pytest.param(FORM, {"fields": {"day": "Monday"}}, id="a field is missing"),
        pytest.param(FORM, {"fields": {"city": "Oslo", "hour": "9"}}, id="another field"),
        pytest.param(CHOICE, {"fields": {"bank": "middle"}}, id="another option of a field"),
    ],
)
def test_a_reply_that_does_not_fit_is_refused(
    run: Run, alice: User, offer: dict[str, object], reply: dict[str, object]
) -> None:
    question = waiting_for(run, **offer)

    with pytest.raises(ActionRefused):
        questions.answer(alice, question, **reply)

    assert only(run).status == "open"


@pytest.mark.parametrize(
    "body",
    [
        {"options": "Red", "fields": 3},
        {"options": [[], {}, {"value": ["x"]}, True], "fields": [None, {}, [1]]},
    ],
)
def test_a_question_of_any_shape_can_be_answered_in_words(
    run: Run, alice: User, body: dict[str, object]
) -> None:
    question = waiting_for(run, **body)

    assert questions.answer(alice, question, text="Whichever") is not None


# --- claiming ------------------------------------------------------------------------------


def test_a_claim_keeps_the_others_from_answering_for_a_while(
    run: Run, alice: User, bob: User, settings: object
) -> None:
    ended(run, result_of(call("c1")))
    question = only(run)
    questions.claim(bob, question)

    for attempt in (
        lambda: questions.claim(alice, question),
        lambda: questions.give_result(alice, question, "Rain"),
        lambda: questions.go_on_without(alice, question.run),
    ):
        with pytest.raises(ActionRefused, match="Bob is answering"):
            attempt()
    assert only(run).status == "claimed"

    over = timezone.now() - timedelta(seconds=settings.CLAIM_SECONDS + 1)
    Question.objects.filter(pk=question.pk).update(claimed_at=over)
    questions.claim(alice, question)
    assert only(run).claimed_by == alice


def test_a_claim_is_given_back_by_whoever_has_it(run: Run, alice: User, bob: User) -> None:
    ended(run, result_of(call("c1")))
    question = only(run)
    questions.claim(bob, question)

    questions.release(alice, question)
    assert only(run).claimed_by == bob

    questions.release(bob, question)
    assert only(run).status == "open"
    assert questions.give_result(alice, question, "Rain") is not None


def test_a_claim_comes_too_late_once_it_is_answered(run: Run, alice: User, bob: User) -> None:
    ended(run, result_of(call("c1")))
    question = only(run)
    questions.give_result(alice, question, "Rain")

    with pytest.raises(ActionRefused, match="Alice was first"):
        questions.claim(bob, question)
    questions.release(alice, question)

    assert only(run).status == "answered"


# --- what went away meanwhile --------------------------------------------------------------


def test_nothing_is_settled_in_a_conversation_that_was_deleted(run: Run, alice: User) -> None:
    ended(run, result_of(call("c1")))
    question = only(run)
    verbs.delete(alice, run.conversation)

    with pytest.raises(ActionRefused, match="deleted"):
        questions.give_result(alice, question, "Rain")

    assert only(run).status == "open"
    assert len(runs_of(run.message)) == 1


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_question_stays_open_while_its_server_is_away(
    run: Run, alice: User, upstream: Upstream, is_removed: bool
) -> None:
    ended(run, result_of(call("c1")))
    if is_removed:
        upstream.delete()
    else:
        Upstream.objects.update(is_enabled=False)

    with pytest.raises(ActionRefused, match="removed" if is_removed else "switched off"):
        questions.give_result(alice, only(run), "Rain")

    assert only(run).status == "open"


def test_a_server_that_is_removed_while_an_answer_is_given_refuses_it(
    run: Run, alice: User
) -> None:
    ended(run, result_of(call("c1")))
    question = only(run)
    Upstream.objects.all().delete()

    with pytest.raises(ActionRefused, match="removed"):
        questions.give_result(alice, question, "Rain")

    assert only(run).status == "open"


def test_a_person_s_line_is_bounded_here_too(run: Run, bob: User, settings: object) -> None:
    ended(run, result_of(call("c1")))
    settings.RUNS_PER_PERSON = 0

    with pytest.raises(ActionRefused):
        questions.give_result(bob, only(run), "Rain")

    assert only(run).status == "open"


# --- pauses --------------------------------------------------------------------------------


def test_a_pause_goes_on_by_itself_eight_times(run: Run, alice: User) -> None:
    paused = result_of(status="incomplete", reason="pause")
    for position in range(9):
        ended(runs_of(run.message)[position], paused)

    runs = runs_of(run.message)
    assert [one.position for one in runs] == list(range(9))
    assert {one.requested_by for one in runs} == {alice}
    assert {one.status for one in runs} == {"incomplete"}
    assert [one.notes for one in runs[:-1]] == [[]] * 8
    assert runs[-1].notes == [outcomes.TOO_MANY_PAUSES]
    assert questions.go_on_without(alice, runs[-1]).position == 9


@pytest.mark.parametrize(
    ("column", "value"),
    [("stop_requested_at", timezone.now()), ("upstream", None)],
)
def test_a_pause_does_not_go_on_where_nobody_wants_or_can_ask(
    run: Run, column: str, value: object
) -> None:
    Run.objects.filter(pk=run.pk).update(**{column: value})

    ended(Run.objects.get(pk=run.pk), result_of(status="incomplete", reason="pause"))

    assert len(runs_of(run.message)) == 1


def test_a_pause_does_not_go_on_in_a_deleted_conversation(run: Run) -> None:
    Conversation.objects.filter(pk=run.conversation_id).update(deleted_at=timezone.now())

    ended(Run.objects.get(pk=run.pk), result_of(status="incomplete", reason="pause"))

    assert len(runs_of(run.message)) == 1


def test_a_stop_that_comes_just_after_a_pause_stops_the_run_that_goes_on(
    run: Run, alice: User
) -> None:
    seen = Run.objects.get(pk=run.pk)
    ended(run, result_of(status="incomplete", reason="pause"))

    assert verbs.stop_run(alice, seen)

    assert [one.status for one in runs_of(run.message)] == ["incomplete", "stopped"]
    assert not verbs.stop_run(alice, seen)


# --- who may -------------------------------------------------------------------------------


def test_a_question_is_there_for_who_may_see_its_conversation(
    run: Run, bob: User, viewer: User, charlie: User, dana: User
) -> None:
    ended(run, result_of(call("c1")))
    public_id = only(run).public_id

    assert access.get_question(bob, public_id, for_write=True).run == run
    assert access.get_question(viewer, public_id).run == run
    with pytest.raises(PermissionDenied):
        access.get_question(viewer, public_id, for_write=True)
    for stranger in (charlie, dana):
        with pytest.raises(Http404):
            access.get_question(stranger, public_id)
    with pytest.raises(Http404):
        access.get_question(bob, uuid.uuid4())


def test_a_question_of_a_private_conversation_is_its_owner_s(
    alice: User, bob: User, private_conversation: Conversation, upstream: Upstream
) -> None:
    run = ended(asking(alice, private_conversation, upstream), result_of(call("c1")))
    public_id = only(run).public_id

    assert access.get_question(alice, public_id, for_write=True).run == run
    with pytest.raises(Http404):
        access.get_question(bob, public_id)


# --- at the same moment ----------------------------------------------------------------------


def at_once(*actions: Callable[[], object]) -> list[object]:
    """What each gives or raises; all begin together, each with a connection of its own."""
    together = threading.Barrier(len(actions))
    outcomes: list[object] = [None] * len(actions)

    def act(number: int) -> None:
        together.wait(10)
        try:
            outcomes[number] = actions[number]()
        except ActionRefused as refusal:
            outcomes[number] = refusal
        finally:
            connection.close()

    people = [threading.Thread(target=act, args=(number,)) for number in range(len(actions))]
    for person in people:
        person.start()
    for person in people:
        person.join(30)
    return outcomes


@pytest.mark.databases
@pytest.mark.usefixtures("transactional_db")
def test_of_many_who_answer_at_once_one_is_first(
    alice: User, bob: User, team: Team, upstream: Upstream, conversation: Conversation
) -> None:
    run = ended(asking(alice, conversation, upstream), result_of(call("c1")))
    question = only(run)
    people = [alice, bob] * 3

    outcomes = at_once(
        *(
            lambda person=person, number=number: questions.give_result(
                person, only(run), f"Rain {number}"
            )
            for number, person in enumerate(people)
        )
    )

    assert sum(isinstance(outcome, Run) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, ActionRefused) for outcome in outcomes) == len(people) - 1
    assert len(runs_of(run.message)) == 2
    question.refresh_from_db()
    assert question.status == "answered"


@pytest.mark.databases
@pytest.mark.usefixtures("transactional_db")
def test_two_calls_answered_at_the_same_moment_go_on_once(
    alice: User,
    bob: User,
    team: Team,
    upstream: Upstream,
    conversation: Conversation,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = ended(asking(alice, conversation, upstream), result_of(call("c1"), call("c2")))
    first, second = run.questions.select_related("run__upstream", "conversation")
    both = threading.Barrier(2)
    go_on = questions._go_on

    def late(user: User, run: Run) -> Run | None:
        # Each has settled its own and looks for what else is open, if both can come here at once.
        with suppress(threading.BrokenBarrierError):
            both.wait(0.5)
        return go_on(user, run)

    monkeypatch.setattr(questions, "_go_on", late)
    outcomes = at_once(
        lambda: questions.give_result(alice, first, "Rain"),
        lambda: questions.give_result(bob, second, "Storm"),
    )

    assert sorted(isinstance(outcome, Run) for outcome in outcomes) == [False, True]
    follow_up = runs_of(run.message)[1]
    assert [given.output for given in read_inputs(follow_up)] == ["Rain", "Storm"]


def test_the_tools_of_a_conversation_go_with_each_message(
    alice: User, team: Team, upstream: Upstream
) -> None:
    from chat.actions import tools

    tool = tools.create_tool(alice, team, name="weather", description="Now", schema="")
    run = verbs.start_conversation(
        alice,
        team,
        text="Hello",
        choice=ModelChoice(upstream=upstream, model="m"),
        idempotency_key=uuid.uuid4(),
        tools=[tool],
    )
    tools.change_tool(alice, tool, name="weather", description="Later", schema="")
    ended(run, result_of(call("c1")))

    follow_up = questions.give_result(alice, only(run), "Rain")

    assert run.tools == [
        {"name": "weather", "description": "Now", "schema": {"type": "object", "properties": {}}}
    ]
    assert follow_up.tools == run.tools
    assert follow_up.status == RunStatus.QUEUED
