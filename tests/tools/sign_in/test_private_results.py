"""Results of calls with somebody's account that are for this person alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from django.template.loader import render_to_string
from django.test import Client

from chat.models import (
    Conversation,
    InputSource,
    Run,
    StoredFile,
    Tool,
    ToolCall,
    ToolRule,
    User,
    Visibility,
)
from chat.questions import input_actions
from chat.questions.card_reading import cards_by_run
from chat.runs.resume import read_inputs
from chat.tools import calls, claims, endings, servers
from chat.tools.definitions import tool_digest
from chat.tools.kinds import (
    AskedInput,
    CallFailed,
    CallOutput,
    InputNeeded,
    OutputFile,
)
from tests.exports.check import html_of, json_of, markdown_of
from tests.tools.calling import (
    call_of,
    follow_up_of,
    give_result,
    given_to,
    sent,
    statuses,
)
from tests.tools.sign_in.conftest import Connect
from tests.tools.sign_in.personal import (
    SECRET,
    Ask,
    author_of,
    card,
    details,
    end,
)

pytestmark = pytest.mark.django_db


# Ends of a private call: what it ended with, what the model gets, and what of it the person alone is shown.
TEXT = OutputFile(media_type="text/plain", content=SECRET.encode(), name="a.txt")
PICTURE = OutputFile(media_type="image/png", content=SECRET.encode(), name="payslip.png")
TOLD = "This tool call has no result. The tool ran, and its result is kept private."
EMPTY = ("The result is empty.", "Files of a private result aren’t kept.")
PRIVATE_ENDS = {
    "result": (CallOutput(text=SECRET, structured={"text": SECRET}, files=[TEXT]), TOLD, (SECRET,)),
    "only-a-file": (CallOutput(text="", files=[PICTURE]), TOLD, EMPTY),
    "failure": (
        CallFailed(f"The server says: {SECRET}"),
        endings.FAILED_PRIVATELY,
        (f"The server says: {SECRET}",),
    ),
}


def end_privately(run: Run, ending: CallOutput | CallFailed | InputNeeded) -> ToolCall:
    calls.approve(author_of(run), call_of(run), keeps_private=True)
    end(sent(run), ending)
    return call_of(run)


def check_nobody_else_reads(client: Client, run: Run, reader: User) -> None:
    """The secret is in no page, and nowhere in what the model gets."""
    follow_up = follow_up_of(run)
    assert SECRET not in str(call_of(run).question.answer) + str(follow_up and follow_up.inputs)
    assert SECRET not in card(client, reader, run) + details(client, reader, run)


@pytest.mark.parametrize(("ending", "told", "shown"), PRIVATE_ENDS.values(), ids=PRIVATE_ENDS)
def test_end_of_a_private_call_is_for_its_person_alone(
    ending: CallOutput | CallFailed,
    told: str,
    shown: Sequence[str],
    client: Client,
    run: Run,
    alice: User,
    bob: User,
    administrator: User,
    connect: Connect,
) -> None:
    connect(alice)
    call = end_privately(run, ending)

    assert given_to(run) == told
    assert call.has_private_result
    assert call.private_files == (len(ending.files) if isinstance(ending, CallOutput) else 0)
    assert not run.files.exists()
    assert not StoredFile.objects.exists()
    hers, his = card(client, alice, run), card(client, bob, run)
    for sentence in shown:
        assert sentence in hers
        assert sentence not in his
    assert "Alice keeps the result private." in his
    check_nobody_else_reads(client, run, bob)
    client.force_login(administrator)
    assert client.get(f"/c/{run.conversation.public_id}/").status_code == 404
    # Exports and the details of the run, hers as well.
    room = run.conversation
    for text in (
        *(str(json_of(alice, room)), html_of(alice, room), markdown_of(alice, room)),
        details(client, alice, run),
    ):
        assert SECRET not in text
    # The card is rendered for each reader.
    [cards] = cards_by_run([Run.objects.get(pk=run.pk)]).values()
    assert [each.names_reader for each in cards] == [True]


def test_private_result_is_told_as_a_declined_call(run: Run, alice: User, connect: Connect) -> None:
    connect(alice)
    end_privately(run, CallOutput(text=SECRET))

    follow_up = follow_up_of(run)
    assert follow_up is not None
    assert [each.outcome for each in read_inputs(follow_up)] == ["declined"]
    assert statuses(run) == [("declined", "done")]


def test_words_in_the_middle_of_a_private_call_are_for_its_person(
    client: Client, run: Run, alice: User, bob: User, connect: Connect, subtests: pytest.Subtests
) -> None:
    connect(alice)
    calls.approve(alice, call_of(run), keeps_private=True)
    running = sent(run)
    assert running.claim is not None
    claims.store_progress(running.pk, running.claim, {"message": SECRET})
    with subtests.test("progress"):
        assert SECRET in card(client, alice, run)
        check_nobody_else_reads(client, run, bob)
    asked = AskedInput(key="k", message=f"Is it {SECRET}?", schema={"type": "object"})
    needed = InputNeeded(asked=[asked], source=InputSource.RESULT)
    end(running, needed)
    call = call_of(run)
    row = call.inputs.get()
    with subtests.test("input"):
        assert f"/q/{call.question.public_id}/input/" in card(client, alice, run)
        his = card(client, bob, run)
        assert f"/q/{call.question.public_id}/input/" not in his
        assert "Waiting for Alice’s answer" in his
        check_nobody_else_reads(client, run, bob)
    with subtests.test("who answers"):
        assert [input_actions.may_answer(each, call) for each in (alice, bob)] == [True, False]
    input_actions.answer(alice, call, row, "accept", {})
    give_result(run, SECRET)
    with subtests.test("afterwards"):
        assert SECRET in card(client, alice, run)
        check_nobody_else_reads(client, run, bob)


def test_deleted_executor_leaves_no_private_result(
    client: Client, run: Run, alice: User, bob: User, connect: Connect
) -> None:
    connect(alice)
    end_privately(run, CallOutput(text=SECRET))
    Conversation.objects.update(owner=bob)
    alice.delete()

    call = call_of(run)
    assert (call.executor, call.private_output) == (None, "")
    ToolCall.objects.update(private_output=SECRET)
    assert SECRET not in card(client, bob, run)
    # As in a page that is rendered for nobody in particular.
    [cards] = cards_by_run([Run.objects.get(pk=run.pk)]).values()
    assert SECRET not in render_to_string("tools/_call_settled.html", {"asked": cards[0]})


def test_result_goes_to_the_model_where_nobody_else_reads(
    run: Run, alice: User, connect: Connect
) -> None:
    Conversation.objects.update(visibility=Visibility.PRIVATE)
    run = Run.objects.get(pk=run.pk)
    connect(alice)

    call = end_privately(run, CallOutput(text=SECRET))

    assert given_to(run) == SECRET
    assert call.private_output == ""


def test_default_is_that_of_the_tool_and_the_approver_chooses(
    alice: User,
    administrator: User,
    tool: Tool,
    ask: Ask,
    connect: Connect,
    client: Client,
) -> None:
    digest = tool_digest(tool)
    servers.set_rule(administrator, tool, rule=ToolRule.ASK, digest=digest, keeps_private=True)
    connect(alice)
    run = ask()
    call = call_of(run)
    assert call.keeps_private
    address = f"/q/{call.question.public_id}/approve/"
    assert "Keep private" in card(client, alice, run)

    client.post(address, {"result": "share"})

    assert not call_of(run).keeps_private
    # A rule that is set without it keeps it.
    servers.set_rule(administrator, tool, rule=ToolRule.AUTO, digest=digest)
    assert Tool.objects.get().keeps_private
