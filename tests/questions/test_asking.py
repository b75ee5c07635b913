"""Replies to what a run waits for: once each, by people who may, and the answer continues."""

from __future__ import annotations

import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from datetime import timedelta

import pytest
from django.db import OperationalError, connection, transaction
from django.utils import timezone
from pytest_django import Settings

from chat import events as canonical
from chat.conversations.actions import conversation as actions_conversation
from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.messages import ModelChoice
from chat.core.errors import ActionRefused
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
from chat.questions import actions as questions
from chat.questions import asking as questions_asking
from chat.questions.asking import NOT_RUN, REFUSED
from chat.result.asks import in_words
from chat.runs import outcomes
from chat.runs.outcomes import OutcomeStep
from chat.runs.resume import read_inputs
from chat.tools import actions as tools
from tests.runs.waiting import (
    ask,
    asking,
    call,
    ended,
    question_of,
    questions_of,
    result_of,
    runs_of,
)


@pytest.fixture
def run(alice: User, conversation: Conversation, upstream: Upstream) -> Run:
    return asking(alice, conversation, upstream)


def waiting_for(run: Run, **members: object) -> Question:
    """The question of a run that ends with it."""
    ended(run, result_of(asks=(ask(**members),), reason="ask"))
    return question_of(run)


@pytest.fixture
def question(run: Run) -> Question:
    """The call with which the run has ended."""
    ended(run, result_of(call("c1")))
    return question_of(run)


@contextmanager
def case(subtests: pytest.Subtests, label: object) -> Iterator[None]:
    """A subtest that leaves the rows as they were."""
    with subtests.test(msg=str(label)), transaction.atomic():
        yield
        transaction.set_rollback(True)


# --- what is asked -------------------------------------------------------------------------


def test_each_waiting_call_becomes_a_question(run: Run) -> None:
    ended(run, result_of(call("c1", city="Oslo"), canonical.MessageItem(content="."), call("c2")))

    rows = list(run.questions.all())

    assert [(row.kind, row.position, row.ask_id, row.status) for row in rows] == [
        ("tool", 0, "c1", "open"),
        ("tool", 2, "c2", "open"),
    ]
    assert rows[0].body["arguments"] == {"city": "Oslo"}


def test_calls_nobody_can_answer_are_not_asked(run: Run) -> None:
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


def test_model_s_question_is_not_asked_again_as_a_call(run: Run) -> None:
    ended(run, result_of(call("c1", "ask_user"), call("c2"), asks=(ask("a1", call_id="c1"),)))

    kinds = [(row.kind, row.ask_id) for row in run.questions.order_by("kind")]

    assert kinds == [("ask", "a1"), ("tool", "c2")]


def test_run_that_does_not_wait_asks_nothing(run: Run, subtests: pytest.Subtests) -> None:
    for status in ("completed", "stopped", "cut", "failed", "interrupted"):
        with case(subtests, status):
            ended(run, result_of(call("c1"), status=status))

            assert not run.questions.exists()


ODD_IDS = (("", ""), (None, None), ("same", "same"), ("x" * 300, "x" * 300), ("ü" * 500, ""))


def test_calls_with_odd_ids_are_asked(run: Run, subtests: pytest.Subtests) -> None:
    for number, ids in enumerate(ODD_IDS):
        with case(subtests, number):
            ended(run, result_of(*(call(call_id) for call_id in ids)))

            assert [row.position for row in run.questions.all()] == [0, 1]


def test_number_of_questions_is_bounded(run: Run, alice: User) -> None:
    over = ended(run, result_of(*(call(str(number)) for number in range(5000))))

    assert run.questions.count() == questions_asking.MOST_QUESTIONS
    inputs = read_inputs(questions.go_on_without(alice, over))
    assert [given.position for given in inputs] == list(range(5000))
    assert {given.output for given in inputs} == {NOT_RUN}


def step(store: Callable[[Run, canonical.Result, object], None]) -> OutcomeStep:
    return OutcomeStep(name=store.__name__, applies=lambda result, prepared: True, store=store)


def use_steps(monkeypatch: pytest.MonkeyPatch, *steps: OutcomeStep) -> None:
    monkeypatch.setattr(outcomes, "_steps", steps)


def test_failed_recording_does_not_block_the_ending(
    run: Run, alice: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(run: Run, result: canonical.Result, prepared: object) -> None:
        Question.objects.create(run=run, conversation=run.conversation, kind="tool", ask_id="half")
        raise ValueError("a surprise")

    use_steps(monkeypatch, step(broken))
    over = ended(run, result_of(call("c1")))

    assert over.status == "waiting"
    assert not run.questions.exists()
    assert "run.outcome_lost" in caplog.text
    assert "a surprise" not in caplog.text
    assert [given.output for given in read_inputs(questions.go_on_without(alice, over))] == [
        NOT_RUN
    ]


def test_refused_statement_does_not_block_the_ending(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def greedy(run: Run, result: canonical.Result, prepared: object) -> None:
        # More than SQLite takes in one statement, once its limit is this low.
        sqlite = connection.connection
        usual = sqlite.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 9)
        try:
            list(Question.objects.filter(pk__in=range(10)))
        finally:
            sqlite.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, usual)

    use_steps(monkeypatch, step(greedy), questions_asking.ASK_PEOPLE)

    over = ended(run, result_of(call("c1")))

    assert over.status == "waiting"
    assert run.questions.count() == 1
    assert "run.outcome_lost" in caplog.text


def test_outage_loses_nothing_of_an_ending(
    run: Run, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for words in ("database is locked", "database or disk is full"):

        def unlucky(
            run: Run, result: canonical.Result, prepared: object, words: str = words
        ) -> None:
            raise OperationalError(words)

        use_steps(monkeypatch, step(unlucky))

        with case(subtests, words), pytest.raises(OperationalError):
            ended(run, result_of(call("c1")))


# --- settling ------------------------------------------------------------------------------


def test_last_result_queues_the_next_run(run: Run, alice: User, bob: User) -> None:
    ended(run, result_of(call("c1"), call("c2")))
    first, second = questions_of(run)

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


def test_model_is_told_a_refusal_and_its_reason(run: Run, question: Question, alice: User) -> None:
    follow_up = questions.refuse(alice, question, "Too far away.")

    (given,) = read_inputs(follow_up)
    assert (given.outcome, given.is_error) == ("declined", True)
    assert given.output == f"{REFUSED} Too far away."
    assert question_of(run).status == QuestionStatus.DECLINED


def test_continuing_without_settles_all_that_is_open(run: Run, alice: User, bob: User) -> None:
    over = ended(run, result_of(call("c1"), call("c2"), asks=(ask(),)))
    done = question_of(run, ask_id="c1")
    questions.give_result(bob, done, "Rain")

    follow_up = questions.go_on_without(alice, over)

    assert [(g.kind, g.outcome) for g in read_inputs(follow_up)] == [
        ("tool", "answered"),
        ("tool", "not_run"),
        ("ask", "not_run"),
    ]
    statuses = run.questions.order_by("pk").values_list("status", flat=True)
    assert list(statuses) == ["answered", "expired", "expired"]


def test_continuing_twice_continues_once(run: Run, alice: User, bob: User) -> None:
    over = ended(run, result_of(call("c1")))
    follow_up = questions.go_on_without(alice, over)

    assert questions.go_on_without(alice, over) == follow_up
    with pytest.raises(ActionRefused, match="already continued"):
        questions.go_on_without(bob, over)


def test_answer_that_waits_for_nothing_cannot_continue(
    run: Run, alice: User, subtests: pytest.Subtests
) -> None:
    for status in ("completed", "incomplete", "stopped"):
        with case(subtests, status):
            over = ended(run, result_of(status=status, reason="stop"))

            with pytest.raises(ActionRefused, match="isn’t waiting"):
                questions.go_on_without(alice, over)


def test_double_click_answers_once(run: Run, question: Question, alice: User) -> None:
    first = questions.give_result(alice, question, "Rain")

    assert questions.give_result(alice, question, "Rain") == first
    assert len(runs_of(run.message)) == 2


def test_late_answer_names_the_first(run: Run, question: Question, alice: User, bob: User) -> None:
    questions.give_result(bob, question, "Rain")

    # The same words of another person are no double click.
    for late in ("Sun", "Rain"):
        with pytest.raises(ActionRefused, match="Bob has already responded"):
            questions.give_result(alice, question, late)
    with pytest.raises(ActionRefused, match="Bob has already responded"):
        questions.refuse(bob, question)

    assert question_of(run).answer == {"output": "Rain", "is_error": False}


def test_answer_changes_the_revisions(run: Run, alice: User) -> None:
    ended(run, result_of(call("c1"), call("c2")))
    question = questions_of(run).first()
    before = Conversation.objects.get(pk=run.conversation_id).revision

    questions.give_result(alice, question, "Rain")

    after = Conversation.objects.get(pk=run.conversation_id).revision
    assert after > before
    assert Message.objects.get(pk=run.message_id).revision == after


def test_approvals_and_refusals_are_audited(run: Run, alice: User) -> None:
    asks = (ask("p1", style="approval"), ask("p2", style="approval"))
    ended(run, result_of(asks=asks, reason="ask"))
    first, second = questions_of(run)

    questions.approve(alice, first, is_approved=True)
    follow_up = questions.approve(alice, second, is_approved=False, reason="Not that one")

    assert [(g.outcome, g.text) for g in read_inputs(follow_up)] == [
        ("answered", ""),
        ("declined", "Not that one"),
    ]
    message_actions = AuditEvent.objects.order_by("pk").values_list("verb", flat=True)
    assert list(message_actions) == ["question.approved", "question.declined"]


def test_question_is_not_answered_as_another_kind(run: Run, alice: User) -> None:
    question = waiting_for(run)

    with pytest.raises(ActionRefused):
        questions.give_result(alice, question, "Rain")
    with pytest.raises(ActionRefused):
        questions.approve(alice, question, is_approved=True)


def test_only_the_size_of_a_result_is_checked(
    run: Run, question: Question, alice: User, settings: Settings
) -> None:
    settings.TOOL_RESULT_BYTES = 10

    with pytest.raises(ActionRefused, match="11 bytes"):
        questions.give_result(alice, question, "äääää1")

    assert question_of(run).status == "open"
    assert questions.give_result(alice, question, "{]\x00<b>") is not None
    assert question_of(run).answer["output"] == "{]\u2400<b>"


# --- what fits -----------------------------------------------------------------------------

CHOICE = {"fields": [{"name": "bank", "options": ["left", "right"]}]}
COLOURS = {"options": ["Red", {"label": "Deep blue", "value": "blue"}]}
FORM = {"fields": [{"name": "city", "label": "City", "required": True}, {"name": "day"}]}


def test_options_and_fields_are_read_in_any_form(run: Run) -> None:
    question = waiting_for(
        run, options=["Red", 7, {"id": "b", "text": "Blue"}, None, "Red"], **FORM
    )

    offered = [(option.value, option.label) for option in questions.options_of(question)]

    assert offered == [("Red", "Red"), ("7", "7"), ("b", "Blue")]
    assert [(f.name, f.label, f.is_required) for f in questions.fields_of(question)] == [
        ("city", "City", True),
        ("day", "day", False),
    ]


FITTING: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "words where nothing is offered": ({}, {"text": "Whichever"}),
    "one option": (COLOURS, {"selected": ["blue"]}),
    "several": ({**COLOURS, "multi_select": True}, {"selected": ["Red", "blue"]}),
    "own words": ({**COLOURS, "allow_free_text": True}, {"text": "Green"}),
    "a form": (FORM, {"fields": {"city": "Oslo"}}),
}
UNFITTING: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "nothing": ({}, {"text": "  "}),
    "no option": (COLOURS, {}),
    "another option": (COLOURS, {"selected": ["Green"]}),
    "the label of an option": (COLOURS, {"selected": ["Deep blue"]}),
    "two of one": (COLOURS, {"selected": ["Red", "blue"]}),
    "words where there are options": (COLOURS, {"text": "Green"}),
    "a field is missing": (FORM, {"fields": {"day": "Monday"}}),
    "another field": (FORM, {"fields": {"city": "Oslo", "hour": "9"}}),
    "another option of a field": (CHOICE, {"fields": {"bank": "middle"}}),
}
SHAPELESS = (
    {"options": "Red", "fields": 3},
    {"options": [[], {}, {"value": ["x"]}, True], "fields": [None, {}, [1]]},
)


def test_fitting_reply_is_accepted(run: Run, alice: User, subtests: pytest.Subtests) -> None:
    for label, (offer, reply) in FITTING.items():
        with case(subtests, label):
            question = waiting_for(run, **offer)

            follow_up = questions.answer(alice, question, **reply)

            (given,) = read_inputs(follow_up)
            assert given.text == reply.get("text", "")
            assert list(given.selected) == reply.get("selected", [])
            assert given.fields == reply.get("fields", {})


def test_unfitting_reply_is_refused(run: Run, alice: User, subtests: pytest.Subtests) -> None:
    for label, (offer, reply) in UNFITTING.items():
        with case(subtests, label):
            question = waiting_for(run, **offer)

            with pytest.raises(ActionRefused):
                questions.answer(alice, question, **reply)

            assert question_of(run).status == "open"


def test_malformed_question_can_be_answered_in_words(
    run: Run, alice: User, subtests: pytest.Subtests
) -> None:
    for body in SHAPELESS:
        with case(subtests, body):
            question = waiting_for(run, **body)

            assert questions.answer(alice, question, text="Whichever") is not None


def test_reply_in_words_has_the_labels() -> None:
    body = {
        "options": [{"id": "r", "label": "Rhine"}, {"id": "d", "label": "Danube"}],
        "fields": [
            {"name": "unit", "label": "Unit", "options": [{"id": "m", "label": "Meters"}]},
            {"name": "note", "label": "Note"},
        ],
    }

    said = in_words(body, text="Both", selected=["d", "other"], fields={"unit": "m", "note": " "})

    assert said == "Danube, other, Unit: Meters, Both"


# --- claiming ------------------------------------------------------------------------------


def test_claim_blocks_others_until_it_expires(
    run: Run, question: Question, alice: User, bob: User, settings: Settings
) -> None:
    questions.claim(bob, question)

    for attempt in (
        lambda: questions.claim(alice, question),
        lambda: questions.give_result(alice, question, "Rain"),
        lambda: questions.go_on_without(alice, question.run),
    ):
        with pytest.raises(ActionRefused, match="Bob is answering"):
            attempt()
    assert question_of(run).status == "claimed"

    over = timezone.now() - timedelta(seconds=settings.CLAIM_SECONDS + 1)
    Question.objects.filter(pk=question.pk).update(claimed_at=over)
    questions.claim(alice, question)
    assert question_of(run).claimed_by == alice


def test_claim_is_released_only_by_its_owner(
    run: Run, question: Question, alice: User, bob: User
) -> None:
    questions.claim(bob, question)

    questions.release(alice, question)
    assert question_of(run).claimed_by == bob

    questions.release(bob, question)
    assert question_of(run).status == "open"
    assert questions.give_result(alice, question, "Rain") is not None


def test_answered_question_cannot_be_claimed(
    run: Run, question: Question, alice: User, bob: User
) -> None:
    questions.give_result(alice, question, "Rain")

    with pytest.raises(ActionRefused, match="Alice has already responded"):
        questions.claim(bob, question)
    questions.release(alice, question)

    assert question_of(run).status == "answered"


# --- what went away meanwhile --------------------------------------------------------------


def test_deleted_conversation_refuses_answers(run: Run, question: Question, alice: User) -> None:
    actions_conversation.delete(alice, run.conversation)

    with pytest.raises(ActionRefused, match="deleted"):
        questions.give_result(alice, question, "Rain")

    assert question_of(run).status == "open"
    assert len(runs_of(run.message)) == 1


def test_question_stays_open_while_its_server_is_away(
    run: Run, question: Question, alice: User, subtests: pytest.Subtests
) -> None:
    def removed_before() -> Question:
        Upstream.objects.all().delete()
        return question_of(run)

    def removed_meanwhile() -> Question:
        Upstream.objects.all().delete()
        return question

    def switched_off() -> Question:
        Upstream.objects.update(is_enabled=False)
        return question_of(run)

    for change, reason in (
        (removed_before, "removed"),
        (removed_meanwhile, "removed"),
        (switched_off, "is disabled"),
    ):
        with case(subtests, change.__name__):
            with pytest.raises(ActionRefused, match=reason):
                questions.give_result(alice, change(), "Rain")

            assert question_of(run).status == "open"


def test_answer_counts_against_the_person_s_limit(
    run: Run, question: Question, bob: User, settings: Settings
) -> None:
    settings.RUNS_PER_PERSON = 0

    with pytest.raises(ActionRefused):
        questions.give_result(bob, question, "Rain")

    assert question_of(run).status == "open"


# --- pauses --------------------------------------------------------------------------------


def test_pause_continues_by_itself_eight_times(run: Run, alice: User) -> None:
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


def test_pause_continues_only_where_it_may(run: Run, subtests: pytest.Subtests) -> None:
    def stop() -> None:
        Run.objects.filter(pk=run.pk).update(stop_requested_at=timezone.now())

    def remove_server() -> None:
        Run.objects.filter(pk=run.pk).update(upstream=None)

    def delete_conversation() -> None:
        Conversation.objects.filter(pk=run.conversation_id).update(deleted_at=timezone.now())

    for change in (stop, remove_server, delete_conversation):
        with case(subtests, change.__name__):
            change()

            ended(Run.objects.get(pk=run.pk), result_of(status="incomplete", reason="pause"))

            assert len(runs_of(run.message)) == 1


def test_stop_just_after_a_pause_stops_the_next_run(run: Run, alice: User) -> None:
    seen = Run.objects.get(pk=run.pk)
    ended(run, result_of(status="incomplete", reason="pause"))

    assert actions_conversation.stop_run(alice, seen)

    assert [one.status for one in runs_of(run.message)] == ["incomplete", "stopped"]
    assert not actions_conversation.stop_run(alice, seen)


# --- who may -------------------------------------------------------------------------------


# --- at the same moment ----------------------------------------------------------------------


def at_once(*actions: Callable[[], object]) -> list[object]:
    """What each returns or raises; all begin together, each with a connection of its own."""
    together = threading.Barrier(len(actions))

    def act(action: Callable[[], object]) -> object:
        together.wait(60)
        try:
            return action()
        except ActionRefused as refusal:
            return refusal
        finally:
            connection.close()

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(act, actions))


@pytest.mark.databases
@pytest.mark.usefixtures("transactional_db")
def test_one_of_many_concurrent_answers_wins(
    run: Run, question: Question, alice: User, bob: User
) -> None:
    people = [alice, bob] * 3

    outcomes = at_once(
        *(
            lambda person=person, number=number: questions.give_result(
                person, question_of(run), f"Rain {number}"
            )
            for number, person in enumerate(people)
        )
    )

    assert sum(isinstance(outcome, Run) for outcome in outcomes) == 1
    assert sum(isinstance(outcome, ActionRefused) for outcome in outcomes) == len(people) - 1
    assert len(runs_of(run.message)) == 2
    assert question_of(run).status == "answered"


@pytest.mark.databases
@pytest.mark.usefixtures("transactional_db")
def test_concurrent_answers_to_two_calls_continue_once(
    run: Run, alice: User, bob: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended(run, result_of(call("c1"), call("c2")))
    first, second = questions_of(run)
    both = threading.Barrier(2)
    go_on = questions._go_on

    def late(user: User, run: Run) -> Run | None:
        # Each has settled its own and looks for what else is open, if both can come here at once.
        with suppress(threading.BrokenBarrierError):
            both.wait(0.2)
        return go_on(user, run)

    monkeypatch.setattr(questions, "_go_on", late)
    outcomes = at_once(
        lambda: questions.give_result(alice, first, "Rain"),
        lambda: questions.give_result(bob, second, "Storm"),
    )

    assert sorted(isinstance(outcome, Run) for outcome in outcomes) == [False, True]
    follow_up = runs_of(run.message)[1]
    assert [given.output for given in read_inputs(follow_up)] == ["Rain", "Storm"]


def test_tools_are_kept_as_they_were_when_asked(
    alice: User, team: Team, upstream: Upstream
) -> None:
    tool = tools.create_tool(alice, team, name="weather", description="Now", schema="")
    run = message_actions.start_conversation(
        alice,
        team,
        text="Hello",
        choice=ModelChoice(upstream=upstream, model="m"),
        idempotency_key=uuid.uuid4(),
        tools=[tool],
    )
    tools.change_tool(alice, tool, name="weather", description="Later", schema="")
    ended(run, result_of(call("c1")))

    follow_up = questions.give_result(alice, question_of(run), "Rain")

    assert run.tools == [
        {"name": "weather", "description": "Now", "schema": {"type": "object", "properties": {}}}
    ]
    assert follow_up.tools == run.tools
    assert follow_up.status == RunStatus.QUEUED
