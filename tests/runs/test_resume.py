"""Answers that continue after a reply, through a real runner and a fake upstream."""

from __future__ import annotations

import base64
import json
from datetime import timedelta
from pathlib import Path

import pytest
from django.utils import timezone

from chat import events as canonical
from chat.conversations.actions import conversation
from chat.dialects.base import Image
from chat.models import (
    Attachment,
    Conversation,
    Question,
    Run,
    Runner,
    RunSegment,
    RunStatus,
    Team,
    Upstream,
    User,
)
from chat.questions import actions
from chat.questions.asking import NOT_RUN, REFUSED
from chat.result import fold, plain_text
from chat.runs import queue, reaper
from chat.runs.prompt import prepare
from chat.runs.resume import opening
from chat.runs.segments import read_events
from chat.tools import actions as tools
from tests.runs.helpers import retry, send_below, threads, until, until_ended
from tests.runs.waiting import (
    TIDES,
    WEATHER,
    calling,
    question_of,
    runs_of,
    saying,
    whole,
    wire_call,
)
from tests.support.files import store_file
from tests.support.run_fixtures import Execute, MakeRun, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.support.upstream.script import Gate, Script, chunk, openai_chunks, openai_run, stream

FIXTURES = Path(__file__).parent.parent / "fixtures"


@pytest.fixture
def ask(queue_run: Execute, alice: User, team: Team) -> Execute:
    """Queues a message with two tools switched on, to a server of chat completions if no other. Its
    conversation is shared, so that others may answer questions in it."""

    async def ask(*scripts: Script, dialect: str = "openai_chat") -> Run:
        switched_on = [
            await threads.call(
                tools.create_tool, alice, team, name=name, description="Now", schema=""
            )
            for name in ("weather", "tides")
        ]
        run = await queue_run(
            *scripts,
            text="How is the weather?",
            dialect=dialect,
            choice={"system_prompt": "Be brief."},
            tools=switched_on,
        )
        rooms = Conversation.objects.filter(pk=run.conversation_id)
        await threads.call(rooms.update, visibility="team")
        return run

    return ask


@pytest.fixture
def ask_and_wait(ask: Execute, start_runner: StartRunner) -> Execute:
    """As ``ask``; returns the run as it waits for a person."""

    async def ask_and_wait(*scripts: Script, **fields: str) -> Run:
        run = await ask(*scripts, **fields)
        await start_runner()
        ended = await until_ended(run)
        assert ended.status == "waiting"
        return ended

    return ask_and_wait


@pytest.fixture
def ask_and_drain(ask: Execute, start_runner: StartRunner) -> Execute:
    """As ``ask_and_wait``, and without a runner from then on."""

    async def ask_and_drain(*scripts: Script) -> Run:
        run = await ask(*scripts)
        runner = await start_runner()
        ended = await until_ended(run)
        await runner.drain(0)
        return ended

    return ask_and_drain


async def give(user: User, run: Run, output: str, *, to: str = "c1") -> Run | None:
    return await threads.call(
        lambda: actions.give_result(user, question_of(run, ask_id=to), output)
    )


def claim_for_a_dead_runner(run: Run) -> None:
    dead = Runner.objects.create(
        host="another", pid=1, heartbeat_at=timezone.now() - timedelta(minutes=5)
    )
    assert queue.claim(dead.pk, limit=1).runs == [run]


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


def roles(messages: list[dict[str, object]]) -> list[object]:
    return [message["role"] for message in messages]


async def test_result_continues_the_same_answer(
    fake: FakeUpstream, ask_and_wait: Execute, alice: User
) -> None:
    first = await ask_and_wait(calling(WEATHER, text="Let me look."), saying("It ", "rains."))

    follow_up = await until_ended(await give(alice, first, "Rain, 9 °C"))

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
    asked, resumed = [record.body for record in fake.requests]
    assert roles(asked["messages"]) == ["system", "user"]
    assert roles(resumed["messages"]) == [*("system", "user", "assistant", "tool")]
    assert resumed["messages"][2]["tool_calls"][0]["id"] == "c1"
    assert resumed["messages"][3]["tool_call_id"] == "c1"
    assert resumed["messages"][3]["content"] == "Rain, 9 °C"
    assert asked["tools"] == resumed["tools"]


async def test_two_calls_are_answered_by_two_people(
    fake: FakeUpstream, ask_and_wait: Execute, alice: User, bob: User
) -> None:
    first = await ask_and_wait(calling(WEATHER, TIDES), saying("Stay at home."))

    assert await give(bob, first, "High", to="c2") is None
    follow_up = await until_ended(await give(alice, first, "Rain"))

    events = await threads.call(check_log, follow_up)
    assert [(event.call_id, event.output) for event in events[1:3]] == [
        ("c1", "Rain"),
        ("c2", "High"),
    ]
    assert follow_up.requested_by_id == alice.pk
    outputs = [m["content"] for m in fake.requests[1].body["messages"] if m["role"] == "tool"]
    assert outputs == ["Rain", "High"]
    assert fake.posts == 2


async def test_answer_can_continue_several_times(
    fake: FakeUpstream, ask_and_wait: Execute, alice: User
) -> None:
    again = wire_call(0, "c9", "weather", '{"city": "Bergen"}')
    first = await ask_and_wait(calling(WEATHER), calling(again), saying("Rain everywhere."))
    second = await until_ended(await give(alice, first, "Rain"))

    third = await until_ended(await give(alice, second, "More rain", to="c9"))

    await threads.call(check_log, third)
    assert (second.status, third.status) == ("waiting", "completed")
    messages = fake.requests[2].body["messages"]
    assert roles(messages) == [*("system", "user", "assistant", "tool", "assistant", "tool")]
    assert [m["content"] for m in messages if m["role"] == "tool"] == ["Rain", "More rain"]
    answer = await threads.call(whole, first)
    assert [getattr(item, "output", None) for item in answer.output] == ["Rain", "More rain", None]


@pytest.mark.parametrize("how", ["refused", "failed", "without"])
async def test_server_is_told_that_a_call_failed(
    fake: FakeUpstream, ask_and_wait: Execute, alice: User, how: str
) -> None:
    first = await ask_and_wait(calling(WEATHER), saying("Then not."))
    question = await threads.call(question_of, first)
    act, told = {
        "refused": (lambda: actions.refuse(alice, question, "No."), f"{REFUSED} No."),
        "failed": (
            lambda: actions.give_result(alice, question, "No such city", is_error=True),
            "No such city",
        ),
        "without": (lambda: actions.go_on_without(alice, question.run), NOT_RUN),
    }[how]

    follow_up = await until_ended(await threads.call(act))

    events = await threads.call(check_log, follow_up)
    item = canonical.decode_result(follow_up.result).output[0]
    assert kinds(events)[1] == "ToolCallFailure"
    assert (item.tool, item.arguments, item.output) == ("weather", {"city": "Oslo"}, told)
    assert (item.status, item.call_id) == ("failed", "c1")
    assert fake.requests[1].body["messages"][3]["content"] == told


async def test_call_with_broken_arguments_is_left_out(
    fake: FakeUpstream, ask_and_wait: Execute, alice: User
) -> None:
    broken = wire_call(1, "c2", "weather", '{"city": "Ber')
    first = await ask_and_wait(calling(WEATHER, broken), saying("It rains."))
    asked = await threads.call(lambda: [q.ask_id for q in Question.objects.filter(run=first)])

    await until_ended(await give(alice, first, "Rain"))

    assert asked == ["c1"]
    sent = fake.requests[1].body["messages"][2]["tool_calls"]
    assert [call["id"] for call in sent] == ["c1"]


async def test_answer_of_two_runs_can_be_replied_to(
    fake: FakeUpstream, ask_and_wait: Execute, alice: User
) -> None:
    first = await ask_and_wait(calling(WEATHER), saying("It rains."), saying("Tomorrow, too."))
    follow_up = await until_ended(await give(alice, first, "Rain"))

    await until_ended(await threads.call(send_below, follow_up, "And tomorrow?"))

    messages = fake.requests[2].body["messages"]
    assert [(m["role"], m.get("content")) for m in messages] == [
        ("user", "How is the weather?"),
        ("assistant", None),
        ("tool", "Rain"),
        ("assistant", "It rains."),
        ("user", "And tomorrow?"),
    ]


async def test_retry_sends_the_question_anew(fake: FakeUpstream, ask_and_wait: Execute) -> None:
    first = await ask_and_wait(calling(WEATHER), saying("No idea."))

    second = await until_ended(await threads.call(retry, first))

    assert (second.position, second.message_id != first.message_id) == (0, True)
    assert roles(fake.requests[1].body["messages"]) == ["user"]


# --- questions -----------------------------------------------------------------------------


async def test_reply_is_in_the_log_and_the_request(
    fake: FakeUpstream, ask_and_wait: Execute, bob: User
) -> None:
    asked = (FIXTURES / "xerotier" / "question.sse").read_bytes()
    first = await ask_and_wait(stream(asked), saying("The old weir it is."), dialect="xerotier")

    question = await threads.call(lambda: question_of(first, ask_id="ask_1"))
    follow_up = await threads.call(
        lambda: actions.answer(bob, question, selected=["old-weir"], text="It is nearer.")
    )
    ended = await until_ended(follow_up)

    events = await threads.call(check_log, ended)
    (note,) = [event for event in events if isinstance(event, canonical.ActivityStep)]
    assert (note.family, note.step, note.ref) == ("question", "answered", "ask_1")
    assert note.label == "Answered by Bob: Old weir, It is nearer."
    assert note.detail["question"] == "Which gauge do you mean?"
    assert ended.status == "completed"
    told = fake.requests[1].body["messages"][-1]
    assert (told["role"], told["tool_call_id"]) == ("tool", "call_q1")
    reply = json.loads(told["content"])
    assert (reply["selected"], reply["answer"]) == (["old-weir"], "It is nearer.")


@pytest.mark.parametrize("is_approved", [True, False])
async def test_approval_goes_back_to_the_server(
    fake: FakeUpstream, ask_and_wait: Execute, bob: User, is_approved: bool
) -> None:
    asked = (FIXTURES / "openai_responses" / "mcp_approval.sse").read_bytes()
    first = await ask_and_wait(stream(asked, times=2), dialect="openai_responses")

    question = await threads.call(lambda: question_of(first, ask_id="mcpr_1"))
    follow_up = await threads.call(
        lambda: actions.approve(bob, question, is_approved=is_approved, reason="Just so")
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


async def test_paused_upstream_continues_by_itself(
    fake: FakeUpstream, ask: Execute, start_runner: StartRunner
) -> None:
    paused, found = [
        (FIXTURES / "anthropic_messages" / f"{name}.sse").read_bytes()
        for name in ("pause_turn", "result_after_pause")
    ]
    run = await ask(stream(paused, times=2), stream(found), dialect="anthropic_messages")

    await start_runner()
    await until(lambda: Run.objects.filter(message=run.message_id, status="completed").exists())

    runs = await threads.call(runs_of, run.message)
    assert [one.status for one in runs] == ["incomplete", "incomplete", "completed"]
    for one in runs:
        await threads.call(check_log, one)
    sent = [roles(record.body["messages"]) for record in fake.requests]
    assert sent[0] == ["user"]
    assert sent[1][-1] == sent[2][-1] == "assistant"
    blocks = fake.requests[1].body["messages"][-1]["content"]
    assert [block["type"] for block in blocks] == ["text", "server_tool_use"]
    assert plain_text(await threads.call(whole, run)).endswith("They nest here.")


# --- ends before anything is sent ----------------------------------------------------------


async def test_answer_stopped_in_the_queue_shows_the_result(
    fake: FakeUpstream, ask_and_drain: Execute, alice: User
) -> None:
    first = await ask_and_drain(calling(WEATHER))

    follow_up = await give(alice, first, "Rain")
    await threads.call(conversation.stop_run, alice, follow_up)
    ended = await until_ended(follow_up)

    assert ended.status == "stopped"
    assert kinds(await threads.call(check_log, ended)) == [
        "ChatStart",
        "ToolCallSuccess",
        "ChatEnd",
    ]
    assert (await threads.call(whole, first)).output[0].output == "Rain"
    assert fake.posts == 1


def begin_and_lose(run: Run) -> None:
    """As a runner leaves it that died between the first commit and the request."""
    claim_for_a_dead_runner(run)
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
async def test_committed_beginning_is_not_repeated(
    fake: FakeUpstream,
    ask_and_drain: Execute,
    start_runner: StartRunner,
    alice: User,
    ending: str,
) -> None:
    first = await ask_and_drain(calling(WEATHER), saying("It rains."))
    follow_up = await give(alice, first, "Rain")
    await threads.call(begin_and_lose, follow_up)

    if ending == "stopped":
        await threads.call(conversation.stop_run, alice, follow_up)
    await start_runner()
    ended = await until_ended(follow_up)

    events = await threads.call(check_log, ended)
    assert ended.status == ending
    assert kinds(events).count("ToolCallSuccess") == 1
    assert fake.posts == (2 if ending == "completed" else 1)


async def test_run_reaped_unsent_shows_the_result(ask_and_drain: Execute, alice: User) -> None:
    first = await ask_and_drain(calling(WEATHER))
    follow_up = await give(alice, first, "Rain")

    def lose() -> None:
        claim_for_a_dead_runner(follow_up)
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


async def test_run_queued_for_a_disabled_server_says_so(
    fake: FakeUpstream, ask_and_drain: Execute, start_runner: StartRunner, alice: User
) -> None:
    first = await ask_and_drain(calling(WEATHER))
    follow_up = await give(alice, first, "Rain")
    await threads.call(lambda: Upstream.objects.update(is_enabled=False))

    await start_runner()
    ended = await until_ended(follow_up)

    assert (ended.status, ended.error_kind) == ("failed", "not_found")
    assert "is disabled" in ended.error_message
    events = await threads.call(check_log, ended)
    assert kinds(events) == ["ChatStart", "ToolCallSuccess", "Error", "ChatEnd"]
    assert fake.posts == 1


async def test_result_is_committed_before_the_request(
    fake: FakeUpstream, ask_and_wait: Execute, alice: User
) -> None:
    first = await ask_and_wait(
        calling(WEATHER), stream(Gate(name="answer"), openai_chunks(openai_run("Rain.")))
    )

    follow_up = await give(alice, first, "Rain")
    await fake.until(lambda fake: fake.waiting == ["answer"])
    begun = await threads.call(read_events, follow_up)
    fake.release("answer")

    assert kinds(begun) == ["ChatStart", "ToolCallSuccess"]
    assert (await until_ended(follow_up)).status == "completed"


async def test_stop_in_mid_stream_keeps_both_runs(
    fake: FakeUpstream, ask_and_wait: Execute, alice: User
) -> None:
    half = openai_chunks([chunk({"role": "assistant"}), chunk({"content": "It "})], is_done=False)
    first = await ask_and_wait(calling(WEATHER), stream(half, Gate(name="never")))
    follow_up = await give(alice, first, "Rain")
    await until(lambda: "MessageDelta" in kinds(read_events(follow_up)))

    await threads.call(conversation.stop_run, alice, follow_up)
    ended = await until_ended(follow_up)

    await threads.call(check_log, ended)
    assert ended.status == "stopped"
    assert plain_text(await threads.call(whole, first)) == "It"


# --- the prompt ----------------------------------------------------------------------------


async def test_pictures_of_a_turn_are_in_the_prompt(ask: Execute) -> None:
    run = await ask()

    def add_pictures() -> None:
        for position, body in enumerate((b"one", b"two")):
            file = store_file(conversation=run.conversation, media_type="image/png", body=body)
            Attachment.objects.create(message=run.message.parent, file=file, position=position)

    await threads.call(add_pictures)
    (turn,) = (await threads.call(prepare, run.pk)).prompt.turns

    assert [(i.media_type, base64.b64decode(i.data)) for i in turn.parts_of(Image)] == [
        ("image/png", b"one"),
        ("image/png", b"two"),
    ]
    await threads.close()


async def test_server_with_a_new_dialect_gets_nothing_native(
    fake: FakeUpstream, ask_and_wait: Execute, alice: User
) -> None:
    first = await ask_and_wait(calling(WEATHER), saying("It rains."))
    follow_up = await until_ended(await give(alice, first, "Rain"))

    def turns() -> list[bool]:
        return [t.is_native for t in prepare(follow_up.pk).prompt.turns[1:]]

    same = await threads.call(turns)
    await threads.call(lambda: Upstream.objects.update(dialect="lmstudio"))
    other = await threads.call(turns)

    assert (first.dialect, same, other) == ("openai_chat", [True], [False])


def test_server_with_history_is_told_the_response_id(make_run: MakeRun, alice: User) -> None:
    run = make_run(dialect="lmstudio")
    Run.objects.filter(pk=run.pk).update(
        status=RunStatus.INCOMPLETE, response_id="resp_1", result=_paused(), dialect="lmstudio"
    )

    follow_up = actions.go_on_without(alice, Run.objects.get(pk=run.pk))
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
