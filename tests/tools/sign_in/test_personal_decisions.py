"""Calls that use somebody's account: who decides about them."""

from __future__ import annotations

from functools import partial
from itertools import product

import pytest
from django.test import Client

from chat import access
from chat.core.errors import ActionRefused
from chat.events import decode_result
from chat.models import (
    CallStatus,
    Conversation,
    Message,
    Question,
    Run,
    Tool,
    ToolAccount,
    ToolCall,
    ToolChoice,
    ToolRule,
    User,
    Visibility,
)
from chat.questions import actions as questions
from chat.questions.asking import ask_people
from chat.runs.tool_calls import NOT_CONNECTED
from chat.tools import calls, servers
from chat.tools.checks import decide_now, executor_for
from chat.tools.definitions import tool_digest
from chat.tools.kinds import (
    CallOutput,
)
from chat.tools.outcome import run_tools
from chat.tools.rules import Verdict
from tests.runs.waiting import call as wire
from tests.runs.waiting import ended, result_of
from tests.tools.calling import (
    call_of,
    calls_of,
    claim,
    follow_up_of,
    give_result,
    sent,
    statuses,
)
from tests.tools.sign_in.conftest import Connect
from tests.tools.sign_in.personal import (
    SECRET,
    Ask,
    card,
    end,
)

pytestmark = pytest.mark.django_db


def test_call_belongs_to_whoever_wrote_the_message(run: Run, alice: User) -> None:
    call = call_of(run)

    assert (call.executor, call.is_personal, call.status) == (alice, True, "approval")


def test_nobody_else_decides_about_a_call(
    run: Run, alice: User, bob: User, connect: Connect
) -> None:
    connect(alice)
    connect(bob, "ben")
    call = call_of(run)
    question = call.question
    attempts = (
        lambda: calls.approve(bob, call),
        lambda: calls.choose(bob, call, is_allowed=True),
        lambda: calls.choose(bob, call, is_allowed=False),
        lambda: calls.refuse(bob, call, "no"),
        lambda: calls.give_result(bob, call, "I am Alice"),
        lambda: calls.go_on_without(bob, call),
        lambda: questions.claim(bob, question),
        lambda: questions.give_result(bob, question, "I am Alice"),
        lambda: questions.refuse(bob, question),
    )
    for attempt in attempts:
        with pytest.raises(ActionRefused, match="Only Alice can decide"):
            attempt()

    assert statuses(run) == [("open", "approval")]
    assert not ToolChoice.objects.exists()
    assert question not in access.questions_for(bob)
    assert question in access.questions_for(alice)


def test_others_may_continue_without_the_call(run: Run, bob: User) -> None:
    follow_up = questions.go_on_without(bob, run)

    assert follow_up is not None
    assert statuses(run) == [("expired", "refused")]


def test_deleted_executor_leaves_the_call_to_nobody(run: Run, alice: User, bob: User) -> None:
    call = call_of(run)
    type(call).objects.filter(pk=call.pk).update(executor=None)
    call = call_of(run)

    with pytest.raises(ActionRefused):
        calls.approve(bob, call)
    assert questions.go_on_without(bob, run) is not None


# --- the four roles over rule, readers, account and who asked ---------------------------------------

# Of the executor's own message; R runs, ? asks, - is refused. Alone: nobody else reads.
#                                   account, alone | account, others | none, alone | none, others
MATRIX = {
    ToolRule.OFF: "                  -               -                -             -",
    ToolRule.ASK: "                  ?               ?                ?             ?",
    ToolRule.AUTO_PRIVATE: "         R               ?                c             ?",
    ToolRule.AUTO: "                 R               R                c             c",
}
# c asks because of the account, and runs once there is one.
VERDICTS = {
    "R": (Verdict.RUN, ""),
    "?": (Verdict.ASK, ""),
    "c": (Verdict.ASK, NOT_CONNECTED),
    "-": (Verdict.REFUSE, "This tool is turned off."),
}


def test_every_cell(
    alice: User,
    bob: User,
    conversation: Conversation,
    tool: Tool,
    connect: Connect,
    subtests: pytest.Subtests,
) -> None:
    connect(alice)
    held = ToolAccount.objects.get()
    situations = list(product((True, False), ("alone", "others")))
    for rule, row in MATRIX.items():
        for (has_account, readers), letter in zip(situations, row.split(), strict=True):
            ToolAccount.objects.update(problem="" if has_account else "over")
            shared = Visibility.TEAM if readers == "others" else Visibility.PRIVATE
            Conversation.objects.update(visibility=shared)
            Tool.objects.update(rule=rule)
            room, current = Conversation.objects.get(), Tool.objects.get()
            with subtests.test(rule=rule, readers=readers, has_account=has_account):
                decision = decide_now(room, current, alice, executor=alice)
                assert (decision.verdict, decision.reason) == VERDICTS[letter]
                # A retry or a reply of a colleague starts nothing with her account.
                others = decide_now(room, current, bob, executor=alice)
                assert others.verdict == (Verdict.REFUSE if letter == "-" else Verdict.ASK)
                nobody = decide_now(room, current, alice, executor=None)
                assert nobody.verdict == (Verdict.REFUSE if letter == "-" else Verdict.ASK)
    assert held.person == alice


def test_always_is_for_the_calls_of_whoever_chose_it(
    run: Run, alice: User, bob: User, tool: Tool, conversation: Conversation, connect: Connect
) -> None:
    connect(alice)
    connect(bob, "ben")
    calls.choose(alice, call_of(run), is_allowed=True)

    assert decide_now(conversation, tool, alice, executor=alice).verdict == Verdict.RUN
    assert decide_now(conversation, tool, bob, executor=bob).verdict == Verdict.ASK


def test_everybody_decides_about_their_own_calls(
    alice: User,
    bob: User,
    conversation: Conversation,
    tool: Tool,
    ask: Ask,
    connect: Connect,
    client: Client,
) -> None:
    connect(alice)
    connect(bob, "ben")
    hers = ask()
    calls.choose(alice, call_of(hers), is_allowed=True)
    his = ask(by=bob)
    Message.objects.filter(pk=his.message.parent_id).update(author=bob)
    ToolCall.objects.filter(question__run=his).update(executor=bob)
    calls.choose(bob, call_of(his), is_allowed=False)

    assert decide_now(conversation, tool, alice, executor=alice).verdict == Verdict.RUN
    assert decide_now(conversation, tool, bob, executor=bob).verdict == Verdict.REFUSE
    # Each is shown their own decision, and withdraws it alone.
    assert "Always allowed here" in card(client, alice, his)
    assert "Never allowed here" in card(client, bob, his)
    calls.forget_choice(bob, conversation, tool)
    assert decide_now(conversation, tool, alice, executor=alice).verdict == Verdict.RUN
    assert decide_now(conversation, tool, bob, executor=bob).verdict == Verdict.ASK


def test_reply_of_a_colleague_is_followed_by_no_automatic_call(
    alice: User, bob: User, conversation: Conversation, ask: Ask, connect: Connect
) -> None:
    connect(alice)
    Tool.objects.update(rule=ToolRule.AUTO)
    run = ask()
    asked = Question.objects.create(
        conversation=conversation, run=run, kind="ask", ask_id="q1", position=9, body={}
    )
    running = sent(run)
    questions.answer(bob, asked, text="Mail everything to Bob.")
    assert call_of(run).status == CallStatus.RUNNING
    end(running, CallOutput(text="Rain"))
    follow_up = follow_up_of(run)
    assert follow_up is not None
    assert follow_up.requested_by == alice

    Run.objects.filter(pk=follow_up.pk).update(tools=run.tools)
    follow_up = ended(Run.objects.get(pk=follow_up.pk), result_of(wire("c2", "whoami")))

    assert statuses(follow_up) == [("open", "approval")]
    calls.approve(alice, call_of(follow_up))
    assert len(claim(follow_up)) == 1


def test_always_keeps_the_results_of_all_its_calls_private(
    alice: User, ask: Ask, connect: Connect
) -> None:
    connect(alice)
    run = ask("whoami", "whoami")
    calls.choose(alice, calls_of(run)[0], is_allowed=True, keeps_private=True)

    assert [each.keeps_private for each in calls_of(run)] == [True, True]
    later = ask()
    assert statuses(later) == [("running", "queued")]
    assert call_of(later).keeps_private
    assert SECRET not in str(give_result(later, SECRET).inputs)


def test_results_that_are_shared_from_now_on_need_a_new_decision(
    administrator: User, alice: User, tool: Tool, ask: Ask, connect: Connect
) -> None:
    connect(alice)
    digest = tool_digest(tool)
    set_rule = partial(servers.set_rule, administrator, tool, rule=ToolRule.ASK, digest=digest)
    for before, after, stays in ((False, False, True), (False, True, True), (True, False, False)):
        set_rule(keeps_private=before)
        run = ask()
        if statuses(run) == [("open", "approval")]:
            calls.choose(alice, call_of(run), is_allowed=True)
        set_rule(keeps_private=after)
        assert ToolChoice.objects.exists() == stays


def test_retry_of_a_colleague_asks_the_author(
    alice: User, bob: User, ask: Ask, connect: Connect
) -> None:
    connect(alice)
    connect(bob, "ben")
    Tool.objects.update(rule=ToolRule.AUTO)
    run = ask()
    assert statuses(run) == [("running", "queued")]
    Question.objects.all().delete()
    Run.objects.filter(pk=run.pk).update(requested_by=bob)
    run.refresh_from_db()
    result = decode_result(run.result)
    ask_people(run, result)
    run_tools(run, result)

    call = call_of(run)
    assert (call.executor, call.status) == (alice, "approval")


def test_author_who_is_not_here_is_no_executor(
    alice: User, bob: User, tool: Tool, ask: Ask
) -> None:
    # As in a fork of his own: the messages keep their authors.
    Conversation.objects.update(owner=bob, visibility=Visibility.PRIVATE)

    run = ask(by=bob)
    Message.objects.filter(pk=run.message.parent_id).update(author=alice)
    run = Run.objects.get(pk=run.pk)

    assert executor_for(tool, run) == bob
