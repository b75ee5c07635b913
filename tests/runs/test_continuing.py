"""Answers that go on, through a real runner and a fake upstream."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from chat import events as canonical
from chat.actions import conversations as verbs
from chat.actions import questions, tools
from chat.actions.continuing import NOT_RUN, REFUSED, opening
from chat.actions.conversations import ModelChoice
from chat.demo.fake import FakeUpstream
from chat.demo.script import Gate, chunk, openai_chunks, openai_run, stream
from chat.merging import merge
from chat.models import (
    Attachment,
    Question,
    Run,
    Runner,
    RunSegment,
    RunStatus,
    StoredFile,
    Team,
    Upstream,
    User,
)
from chat.result import fold, plain_text
from chat.runs import queue, reaper
from chat.runs.prompt import prepare
from chat.runs.segments import read_events
from tests.runs.conftest import StartRunner, threads
from tests.runs.test_execution import until, until_ended
from tests.runs.waiting import TIDES, WEATHER, calling, runs_of, saying, wire_call

Begin = Callable[..., Run]
FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """What people do rings at the process's own door; the runners here have doors of theirs."""
    monkeypatch.setattr("chat.runs.runner.POLL_SECONDS", 0.02)


@pytest.fixture
def begin(transactional_db: None, alice: User, team: Team, upstream: Upstream) -> Begin:
    """Sends a message with a tool switched on, to a server of chat completions."""

    def make(fake: FakeUpstream) -> Run:
        Upstream.objects.filter(pk=upstream.pk).update(
            base_url=f"{fake.url}/v1", dialect="openai_chat"
        )
        upstream.refresh_from_db()
        tool = tools.create_tool(alice, team, name="weather", description="Now", schema="")
        return verbs.start_conversation(
            alice,
            team,
            text="How is the weather?",
            choice=ModelChoice(upstream=upstream, model="test/model", system_prompt="Be brief."),
            idempotency_key=uuid.uuid4(),
            tools=[tool],
        )

    return make


def question_of(run: Run, call_id: str = "c1") -> Question:
    return Question.objects.select_related("run__upstream", "conversation").get(
        run=run, ask_id=call_id
    )


def give(user: User, run: Run, output: str, *, to: str = "c1", **how: bool) -> Run | None:
    return questions.give_result(user, question_of(run, to), output, **how)


async def waiting(fake: FakeUpstream, begin: Begin, start_runner: StartRunner) -> Run:
    """A run that has ended with what the fake's first script asks for."""
    run = await threads.call(begin, fake)
    await start_runner()
    ended = await until_ended(run)
    assert ended.status == "waiting"
    return ended


def check_log(run: Run) -> list[canonical.Event]:
    """One start, one end, numbers without a gap, and the fold of it is the stored result."""
    events = read_events(run)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [isinstance(event, canonical.ChatStart) for event in events].count(True) == 1
    assert [isinstance(event, canonical.ChatEnd) for event in events].count(True) == 1
    assert canonical.encode(fold(events)).decode() == run.result
    assert run.last_seq == len(events)
    return events


def kinds(events: list[canonical.Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def whole(run: Run) -> canonical.Result:
    """All runs of the answer as one result."""
    return merge([canonical.decode_result(one.result) for one in runs_of(run.message)])


async def test_a_result_lets_the_same_answer_go_on(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner, alice: User
) -> None:
    fake.script(calling(WEATHER, text="Let me look."), saying("It ", "rains."))
    first = await waiting(fake, begin, start_runner)

    follow_up = await until_ended(await threads.call(give, alice, first, "Rain, 9 °C"))

    events = await threads.call(check_log, follow_up)
    assert follow_up.status == "completed"
    assert kinds(events)[:2] == ["ChatStart", "ToolCallSuccess"]
    items = [(type(e).__name__, e.item) for e in events if isinstance(e, canonical.ItemEvent)]
    assert items[:3] == [("ToolCallSuccess", 0), ("MessageStart", 1), ("MessageDelta", 1)]
    answer = await threads.call(whole, first)
    assert [type(item).__name__ for item in answer.output] == [
        *("MessageItem", "ToolCallItem", "MessageItem")
    ]
    assert (answer.output[1].output, answer.output[1].status) == ("Rain, 9 °C", "done")
    assert plain_text(answer) == "Let me look.\n\nIt rains."
    assert (answer.stats.input_tokens, answer.stats.total_output_tokens) == (22, 39)
    assert answer.ext.status == "completed"
    asked, goes_on = [record.body for record in fake.requests]
    assert [message["role"] for message in asked["messages"]] == ["system", "user"]
    assert [message["role"] for message in goes_on["messages"]] == [
        *("system", "user", "assistant", "tool")
    ]
    assert goes_on["messages"][2]["tool_calls"][0]["id"] == "c1"
    assert goes_on["messages"][3]["tool_call_id"] == "c1"
    assert goes_on["messages"][3]["content"] == "Rain, 9 °C"
    assert asked["tools"] == goes_on["tools"]


async def test_two_calls_are_answered_by_two_people(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner, alice: User, bob: User
) -> None:
    fake.script(calling(WEATHER, TIDES), saying("Stay at home."))
    first = await waiting(fake, begin, start_runner)

    assert await threads.call(give, bob, first, "High", to="c2") is None
    follow_up = await until_ended(await threads.call(give, alice, first, "Rain"))

    events = await threads.call(check_log, follow_up)
    assert [(event.call_id, event.output) for event in events[1:3]] == [
        ("c1", "Rain"),
        ("c2", "High"),
    ]
    assert follow_up.requested_by_id == alice.pk
    outputs = [m["content"] for m in fake.requests[1].body["messages"] if m["role"] == "tool"]
    assert outputs == ["Rain", "High"]
    assert fake.posts == 2


async def test_the_same_answer_goes_on_again_and_again(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner, alice: User
) -> None:
    again = wire_call(0, "c9", "weather", '{"city": "Bergen"}')
    fake.script(calling(WEATHER), calling(again), saying("Rain everywhere."))
    first = await waiting(fake, begin, start_runner)
    second = await until_ended(await threads.call(give, alice, first, "Rain"))

    third = await until_ended(await threads.call(give, alice, second, "More rain", to="c9"))

    await threads.call(check_log, third)
    assert (second.status, third.status) == ("waiting", "completed")
    messages = fake.requests[2].body["messages"]
    assert [message["role"] for message in messages] == [
        *("system", "user", "assistant", "tool", "assistant", "tool")
    ]
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["Rain", "More rain"]
    answer = await threads.call(whole, first)
    assert [getattr(item, "output", None) for item in answer.output] == ["Rain", "More rain", None]


@pytest.mark.parametrize("how", ["refused", "failed", "without"])
async def test_a_call_that_was_not_run_or_failed_is_told_as_that(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner, alice: User, how: str
) -> None:
    fake.script(calling(WEATHER), saying("Then not."))
    first = await waiting(fake, begin, start_runner)
    ways = {
        "refused": (lambda: questions.refuse(alice, question_of(first), "No."), f"{REFUSED} No."),
        "failed": (lambda: give(alice, first, "No such city", is_error=True), "No such city"),
        "without": (
            lambda: questions.go_on_without(alice, question_of(first).run),
            NOT_RUN,
        ),
    }
    act, told = ways[how]

    follow_up = await until_ended(await threads.call(act))

    events = await threads.call(check_log, follow_up)
    item = canonical.decode_result(follow_up.result).output[0]
    assert kinds(events)[1] == "ToolCallFailure"
    assert (item.tool, item.arguments, item.output) == ("weather", {"city": "Oslo"}, told)
    assert (item.status, item.call_id) == ("failed", "c1")
    assert fake.requests[1].body["messages"][3]["content"] == told


async def test_a_call_whose_arguments_are_broken_is_never_offered_or_sent_back(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner, alice: User
) -> None:
    broken = wire_call(1, "c2", "weather", '{"city": "Ber')
    fake.script(calling(WEATHER, broken), saying("It rains."))
    first = await waiting(fake, begin, start_runner)
    asked = await threads.call(lambda: [q.ask_id for q in Question.objects.filter(run=first)])

    await until_ended(await threads.call(give, alice, first, "Rain"))

    assert asked == ["c1"]
    sent = fake.requests[1].body["messages"][2]["tool_calls"]
    assert [call["id"] for call in sent] == ["c1"]


async def test_the_conversation_goes_on_behind_an_answer_of_several_runs(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner, alice: User
) -> None:
    fake.script(calling(WEATHER), saying("It rains."), saying("Tomorrow, too."))
    first = await waiting(fake, begin, start_runner)
    follow_up = await until_ended(await threads.call(give, alice, first, "Rain"))

    def ask_again() -> Run:
        run = Run.objects.select_related("conversation", "message", "upstream").get(pk=follow_up.pk)
        choice = ModelChoice(upstream=run.upstream, model=run.model)
        return verbs.send_message(
            alice,
            run.conversation,
            parent=run.message,
            text="And tomorrow?",
            choice=choice,
            idempotency_key=uuid.uuid4(),
        )

    await until_ended(await threads.call(ask_again))

    messages = fake.requests[2].body["messages"]
    assert [(m["role"], m.get("content")) for m in messages] == [
        ("user", "How is the weather?"),
        ("assistant", None),
        ("tool", "Rain"),
        ("assistant", "It rains."),
        ("user", "And tomorrow?"),
    ]


async def test_trying_again_asks_the_question_afresh(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner, alice: User
) -> None:
    fake.script(calling(WEATHER), saying("No idea."))
    first = await waiting(fake, begin, start_runner)

    def again() -> Run:
        run = Run.objects.select_related("message__parent", "upstream").get(pk=first.pk)
        choice = ModelChoice(upstream=run.upstream, model=run.model)
        return verbs.retry(alice, run.message, choice=choice, idempotency_key=uuid.uuid4())

    second = await until_ended(await threads.call(again))

    assert (second.position, second.message_id != first.message_id) == (0, True)
    assert [message["role"] for message in fake.requests[1].body["messages"]] == ["user"]


# --- questions -----------------------------------------------------------------------------


async def test_the_reply_to_a_question_is_in_the_log_and_in_the_request(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner, bob: User
) -> None:
    asked = (FIXTURES / "xerotier" / "question.sse").read_bytes()
    fake.script(stream(asked), saying("The old weir it is."))

    def at_xerotier() -> Run:
        run = begin(fake)
        Upstream.objects.update(dialect="xerotier")
        return run

    run = await threads.call(at_xerotier)
    await start_runner()
    first = await until_ended(run)
    follow_up = await threads.call(
        lambda: questions.answer(
            bob, question_of(first, "ask_1"), selected=["old-weir"], text="It is nearer."
        )
    )
    ended = await until_ended(follow_up)

    events = await threads.call(check_log, ended)
    (note,) = [event for event in events if isinstance(event, canonical.ActivityStep)]
    assert (note.family, note.step, note.ref) == ("question", "answered", "ask_1")
    assert note.label == "Answered by Bob: Old weir, It is nearer."
    assert note.detail["question"] == "Which gauge do you mean?"
    assert (first.status, ended.status) == ("waiting", "completed")
    told = fake.requests[1].body["messages"][-1]
    assert (told["role"], told["tool_call_id"]) == ("tool", "call_q1")
    reply = json.loads(told["content"])
    assert (reply["selected"], reply["answer"]) == (["old-weir"], "It is nearer.")


@pytest.mark.parametrize("is_approved", [True, False])
async def test_an_approval_goes_back_to_the_server_that_asked_for_it(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner, bob: User, is_approved: bool
) -> None:
    asked = (FIXTURES / "openai_responses" / "mcp_approval.sse").read_bytes()
    fake.script(stream(asked), stream(asked))

    def at_responses() -> Run:
        run = begin(fake)
        Upstream.objects.update(dialect="openai_responses")
        return run

    run = await threads.call(at_responses)
    await start_runner()
    first = await until_ended(run)
    question = await threads.call(question_of, first, "mcpr_1")
    follow_up = await threads.call(
        lambda: questions.approve(bob, question, is_approved=is_approved, reason="Just so")
    )
    ended = await until_ended(follow_up)

    events = await threads.call(check_log, ended)
    (note,) = [event for event in events if isinstance(event, canonical.ActivityStep)]
    word = "Approved" if is_approved else "Declined"
    assert note.label == f"{word} by Bob: Just so"
    body = fake.requests[1].body
    assert body["previous_response_id"] == first.response_id
    (told,) = [item for item in body["input"] if item["type"] == "mcp_approval_response"]
    assert (told["approval_request_id"], told["approve"]) == ("mcpr_1", is_approved)
    assert told["reason"] == "Just so"
    # Asked again in the follow-up: a question of its own.
    assert await threads.call(Question.objects.filter(run=ended, status="open").count) == 1


# --- pauses --------------------------------------------------------------------------------


async def test_an_upstream_that_pauses_its_own_tools_goes_on_by_itself(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner
) -> None:
    paused, found = [
        (FIXTURES / "anthropic_messages" / f"{name}.sse").read_bytes()
        for name in ("pause_turn", "result_after_pause")
    ]
    fake.script(stream(paused, times=2), stream(found))

    def at_messages() -> Run:
        run = begin(fake)
        Upstream.objects.update(dialect="anthropic_messages")
        return run

    run = await threads.call(at_messages)
    await start_runner()
    await until(lambda: Run.objects.filter(message=run.message_id, status="completed").exists())

    runs = await threads.call(runs_of, run.message)
    assert [one.status for one in runs] == ["incomplete", "incomplete", "completed"]
    for one in runs:
        await threads.call(check_log, one)
    roles = [[m["role"] for m in record.body["messages"]] for record in fake.requests]
    assert roles[0] == ["user"]
    assert roles[1][-1] == roles[2][-1] == "assistant"
    sent = [block["type"] for block in fake.requests[1].body["messages"][-1]["content"]]
    assert sent == ["text", "server_tool_use"]
    assert plain_text(await threads.call(whole, run)).endswith("They nest here.")


# --- ends before anything is sent ----------------------------------------------------------


async def test_stopped_in_line_the_answer_still_shows_what_was_given(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner, alice: User
) -> None:
    fake.script(calling(WEATHER))
    run = await threads.call(begin, fake)
    runner = await start_runner()
    first = await until_ended(run)
    await runner.drain(0)

    follow_up = await threads.call(give, alice, first, "Rain")
    await threads.call(verbs.stop_run, alice, follow_up)
    ended = await until_ended(follow_up)

    assert ended.status == "stopped"
    assert kinds(await threads.call(check_log, ended)) == [
        "ChatStart",
        "ToolCallSuccess",
        "ChatEnd",
    ]
    assert (await threads.call(whole, first)).output[0].output == "Rain"
    assert fake.posts == 1


def begun_and_put_back(run: Run) -> None:
    """As a runner leaves it that died between the first commit and the request."""
    dead = Runner.objects.create(
        host="elsewhere", pid=1, heartbeat_at=timezone.now() - timedelta(minutes=5)
    )
    assert queue.claim(dead.pk, limit=1) == [run.pk]
    events = opening(Run.objects.select_related("upstream").get(pk=run.pk))
    for seq, event in enumerate(events, start=1):
        event.seq = seq
    RunSegment.objects.create(
        run=run,
        first_seq=1,
        last_seq=len(events),
        body=canonical.join_bodies(canonical.encode(event) for event in events),
    )
    reaper.reap()
    assert Run.objects.get(pk=run.pk).status == "queued"


@pytest.mark.parametrize("ending", ["completed", "stopped"])
async def test_a_beginning_that_was_committed_is_not_said_twice(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner, alice: User, ending: str
) -> None:
    fake.script(calling(WEATHER), saying("It rains."))
    run = await threads.call(begin, fake)
    runner = await start_runner()
    first = await until_ended(run)
    await runner.drain(0)
    follow_up = await threads.call(give, alice, first, "Rain")
    await threads.call(begun_and_put_back, follow_up)

    if ending == "stopped":
        await threads.call(verbs.stop_run, alice, follow_up)
    await start_runner()
    ended = await until_ended(follow_up)

    events = await threads.call(check_log, ended)
    assert ended.status == ending
    assert kinds(events).count("ToolCallSuccess") == 1
    assert fake.posts == (2 if ending == "completed" else 1)


async def test_reaped_before_its_beginning_it_says_what_was_given_all_the_same(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner, alice: User
) -> None:
    fake.script(calling(WEATHER))
    run = await threads.call(begin, fake)
    runner = await start_runner()
    first = await until_ended(run)
    await runner.drain(0)
    follow_up = await threads.call(give, alice, first, "Rain")

    def lose() -> None:
        dead = Runner.objects.create(
            host="elsewhere", pid=1, heartbeat_at=timezone.now() - timedelta(minutes=5)
        )
        queue.claim(dead.pk, limit=1)
        Run.objects.filter(pk=follow_up.pk).update(stop_requested_at=timezone.now())
        reaper.reap()

    await threads.call(lose)
    ended = await until_ended(follow_up)

    assert ended.status == "stopped"
    assert kinds(await threads.call(check_log, ended)) == [
        "ChatStart",
        "ToolCallSuccess",
        "ChatEnd",
    ]


async def test_a_server_switched_off_while_the_run_was_in_line_is_told(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner, alice: User
) -> None:
    fake.script(calling(WEATHER))
    run = await threads.call(begin, fake)
    runner = await start_runner()
    first = await until_ended(run)
    await runner.drain(0)
    follow_up = await threads.call(give, alice, first, "Rain")
    await threads.call(lambda: Upstream.objects.update(is_enabled=False))

    await start_runner()
    ended = await until_ended(follow_up)

    assert (ended.status, ended.error_kind) == ("failed", "not_found")
    assert "switched off" in ended.error_message
    events = await threads.call(check_log, ended)
    assert kinds(events) == ["ChatStart", "ToolCallSuccess", "Error", "ChatEnd"]
    assert fake.posts == 1


async def test_what_was_given_is_committed_before_anything_is_sent(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner, alice: User
) -> None:
    fake.script(calling(WEATHER), stream(Gate(name="answer"), openai_chunks(openai_run("Rain."))))
    first = await waiting(fake, begin, start_runner)

    follow_up = await threads.call(give, alice, first, "Rain")
    await fake.until(lambda fake: fake.waiting == ["answer"])
    begun = await threads.call(read_events, follow_up)
    fake.release("answer")

    assert kinds(begun) == ["ChatStart", "ToolCallSuccess"]
    assert (await until_ended(follow_up)).status == "completed"


async def test_stopped_in_mid_stream_it_keeps_both_halves(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner, alice: User
) -> None:
    half = openai_chunks([chunk({"role": "assistant"}), chunk({"content": "It "})], is_done=False)
    fake.script(calling(WEATHER), stream(half, Gate(name="never")))
    first = await waiting(fake, begin, start_runner)
    follow_up = await threads.call(give, alice, first, "Rain")
    await until(lambda: "MessageDelta" in kinds(read_events(follow_up)))

    await threads.call(verbs.stop_run, alice, follow_up)
    ended = await until_ended(follow_up)

    await threads.call(check_log, ended)
    assert ended.status == "stopped"
    assert plain_text(await threads.call(whole, first)) == "It"


# --- the prompt ----------------------------------------------------------------------------


async def test_pictures_of_a_turn_are_in_the_prompt(fake: FakeUpstream, begin: Begin) -> None:
    def with_pictures() -> Run:
        run = begin(fake)
        for position, body in enumerate((b"one", b"two")):
            file = StoredFile.objects.create(
                conversation=run.conversation, media_type="image/png", body=body
            )
            Attachment.objects.create(message=run.message.parent, file=file, position=position)
        return run

    run = await threads.call(with_pictures)
    (turn,) = (await threads.call(prepare, run.pk)).prompt.turns

    assert [(i.media_type, base64.b64decode(i.data)) for i in turn.images] == [
        ("image/png", b"one"),
        ("image/png", b"two"),
    ]
    await threads.close()


async def test_a_server_that_now_speaks_another_dialect_gets_nothing_native(
    fake: FakeUpstream, begin: Begin, start_runner: StartRunner, alice: User
) -> None:
    fake.script(calling(WEATHER), saying("It rains."))
    first = await waiting(fake, begin, start_runner)
    follow_up = await until_ended(await threads.call(give, alice, first, "Rain"))

    def turns() -> list[bool]:
        return [t.is_native for t in prepare(follow_up.pk).prompt.turns[1:]]

    same = await threads.call(turns)
    await threads.call(lambda: Upstream.objects.update(dialect="lmstudio"))
    other = await threads.call(turns)

    assert (first.dialect, same, other) == ("openai_chat", [True], [False])


def test_a_server_that_keeps_the_history_is_told_where_to_go_on(begin: Begin, alice: User) -> None:
    run = begin(FakeUpstream())
    Upstream.objects.update(dialect="lmstudio")
    Run.objects.filter(pk=run.pk).update(
        status=RunStatus.INCOMPLETE, response_id="resp_1", result=_paused(), dialect="lmstudio"
    )

    follow_up = questions.go_on_without(alice, Run.objects.get(pk=run.pk))
    prompt = prepare(follow_up.pk).prompt

    assert prompt.goes_on
    assert prompt.previous_response_id == "resp_1"


def _paused() -> str:
    result = canonical.Result(
        model_instance_id="m",
        output=[canonical.MessageItem(content="Searching")],
        stats=canonical.Stats(),
        ext=canonical.Extension(status="incomplete", stop=canonical.Stop(reason="pause")),
    )
    return canonical.encode(result).decode()
