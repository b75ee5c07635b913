"""Models are sent exactly the part of a conversation that people chose, whatever was chosen before."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chat import events as canonical
from chat.context import actions
from chat.conversations.actions.messages import ModelChoice, edit_message
from chat.core.errors import ActionRefused
from chat.dialects import DIALECTS
from chat.dialects.base import UserTurn
from chat.forks.actions import fork
from chat.models import (
    ContextStart,
    ConversationChange,
    Message,
    Run,
    RunStatus,
    SentContext,
    StartKind,
    User,
)
from chat.result import Fold, close_open
from chat.runs.context import first_sent_below, first_sent_by
from chat.runs.outcomes import write_ending
from chat.runs.prompt import prepare
from chat.tools.files import attached_documents
from tests.runs.helpers import retry, send_below
from tests.runs.test_prompt import answered, said
from tests.support.documents import attach_document, attach_file
from tests.support.run_fixtures import MakeRun

databases = pytest.mark.databases(slow=True)


# --- the rule ---------------------------------------------------------------------------------------


@dataclass
class OneRun:
    pk: int
    status: str = RunStatus.COMPLETED
    sent_from: int | None = None


@dataclass
class OneMessage:
    pk: int
    role: str
    start: int | None = None
    start_kind: str | None = None
    runs: Sequence[OneRun] = field(default_factory=list)


@st.composite
def paths(draw: st.DrawFn) -> list[OneMessage]:
    """Questions and their answers in turn, with choices of all kinds anywhere and in any order."""
    count = draw(st.integers(1, 6))
    order = draw(st.permutations(range(1, count + 1)))
    path = []
    for number in range(count):
        kind = draw(st.sampled_from([None, *StartKind.values]))
        status = draw(st.sampled_from(RunStatus.values))
        start = order[number] if kind else None
        path += [
            OneMessage(pk=100 + 2 * number, role="user", start=start, start_kind=kind),
            OneMessage(
                pk=101 + 2 * number, role="assistant", runs=[OneRun(pk=number, status=status)]
            ),
        ]
    return path


@given(paths())
def test_newest_choice_in_effect_decides(path: list[OneMessage]) -> None:
    first = first_sent_below(path)

    chosen = {
        message.start: index
        for index, message in enumerate(path)
        if message.start is not None
        and (
            message.start_kind != StartKind.SUMMARY
            or path[index + 1].runs[0].status == RunStatus.COMPLETED
        )
    }
    newest = chosen[max(chosen)] if chosen else 0
    assert first == (0 if path[newest].start_kind == StartKind.WHOLE else newest)
    assert path[first].role == "user"


@given(paths(), st.data())
def test_answer_is_sent_the_same_until_its_end(path: list[OneMessage], data: st.DataObject) -> None:
    """A choice while it calls tools is for later answers."""
    first = data.draw(st.sampled_from([each.pk for each in path if each.role == "user"]))
    path[-1].runs = [OneRun(pk=50, sent_from=first), OneRun(pk=51)]

    assert path[first_sent_by(path, 51)].pk == first


@given(paths())
def test_summary_is_written_from_what_was_sent_before(path: list[OneMessage]) -> None:
    path[-2].start, path[-2].start_kind = 99, StartKind.SUMMARY

    assert first_sent_by(path, path[-1].runs[0].pk) == first_sent_below(path[:-2])


# --- requests ---------------------------------------------------------------------------------------


def talk(make_run: MakeRun, *texts: str) -> list[Run]:
    runs = [answered(make_run(texts[0]), f"To {texts[0]}")]
    for text in texts[1:]:
        runs.append(answered(send_below(runs[-1], text), f"To {text}"))
    return runs


def question_of(run: Run) -> Message:
    message = run.message.parent
    assert message is not None
    return message


def leave_out_above(run: Run) -> None:
    assert run.requested_by is not None
    actions.leave_out_above(run.requested_by, question_of(run))


def summarize(run: Run) -> Run:
    assert run.requested_by is not None
    assert run.upstream is not None
    return actions.ask_for_summary(
        run.requested_by,
        run.message.conversation,
        parent=run.message.public_id,
        choice=ModelChoice(upstream=run.upstream, model=run.model),
        idempotency_key=uuid.uuid4(),
    )


@databases
def test_request_starts_where_it_was_chosen(make_run: MakeRun, alice: User) -> None:
    one, two, three = talk(make_run, "one", "two", "three")
    other = send_below(one, "other")
    leave_out_above(two)
    four = send_below(three, "four")

    assert said(four) == ["two", "To two", "three", "To three", "four"]
    assert "2 earlier messages were not sent." in prepare(four.pk).prompt.notes
    assert SentContext.objects.get().left_out == 2
    # Other branches are sent as they are.
    assert said(other) == ["one", "To one", "other"]

    actions.include_all(alice, four.message.conversation)

    assert said(retry(three)) == ["one", "To one", "two", "To two", "three"]
    # The same run was not sent yet.
    assert said(four)[0] == "one"
    assert not SentContext.objects.exists()


@databases
def test_summary_replaces_what_is_above_once_it_is_complete(make_run: MakeRun) -> None:
    *_, two = talk(make_run, "one", "two")
    summary = summarize(two)
    request = question_of(summary).text

    assert said(summary) == ["one", "To one", "two", "To two", request]
    answered(summary, "All of it.")
    Run.objects.filter(pk=summary.pk).update(status=RunStatus.STOPPED)
    assert said(send_below(summary, "three"))[0] == "one"
    Run.objects.filter(pk=summary.pk).update(status=RunStatus.COMPLETED)
    assert said(send_below(summary, "four")) == [request, "All of it.", "four"]
    # Another version of the summary is made of everything, too.
    assert said(retry(summary))[0] == "one"


@databases
def test_answer_that_goes_on_keeps_what_it_was_sent(make_run: MakeRun) -> None:
    *_, two = talk(make_run, "one", "two")
    three = answered(send_below(two, "three"), "Calls")
    prepare(three.pk)
    leave_out_above(three)
    further = Run.objects.create(
        conversation=three.conversation,
        message=three.message,
        position=1,
        upstream=three.upstream,
        model=three.model,
        requested_by=three.requested_by,
        idempotency_key=uuid.uuid4(),
    )

    assert said(further)[0] == "one"
    SentContext.objects.create(run=three, start=question_of(two), left_out=2)
    assert said(further)[0] == "two"


@databases
def test_nothing_more_is_asked_where_nothing_is_left_out(
    make_run: MakeRun, django_assert_num_queries: Any
) -> None:
    *_, two = talk(make_run, "one", "two")
    three = send_below(two, "three")

    with django_assert_num_queries(2):
        prepare(three.pk)


@databases
def test_server_continues_only_from_what_is_sent(make_run: MakeRun, alice: User) -> None:
    one = answered(make_run("one", dialect="lmstudio"), "To one")
    Run.objects.filter(pk=one.pk).update(
        response_id="resp_1", dialect="lmstudio", status=RunStatus.COMPLETED
    )
    two = send_below(one, "two")
    answered(two, "To two")
    Run.objects.filter(pk=two.pk).update(
        response_id="resp_2", dialect="lmstudio", status=RunStatus.COMPLETED
    )
    assert prepare(send_below(two, "three").pk).prompt.previous_response_id == "resp_2"

    leave_out_above(two)
    three = answered(send_below(two, "three"), "To three")
    assert prepare(three.pk).prompt.previous_response_id is None
    Run.objects.filter(pk=three.pk).update(
        response_id="resp_3", dialect="lmstudio", status=RunStatus.COMPLETED
    )
    assert prepare(send_below(three, "four").pk).prompt.previous_response_id == "resp_3"

    actions.include_all(alice, two.message.conversation)
    assert prepare(send_below(three, "five").pk).prompt.previous_response_id is None


@databases
def test_servers_own_summary_of_what_is_left_out_is_not_sent(make_run: MakeRun) -> None:
    _, two = talk(make_run, "one", "two")
    step = '{"family":"context","step":"compaction"}'
    row = Run.objects.get(pk=two.pk)
    Run.objects.filter(pk=two.pk).update(
        dialect=row.upstream.dialect,
        result=row.result.replace('"ext":{', f'"ext":{{"activity":[{step}],', 1),
    )
    three = send_below(two, "three")
    assert prepare(three.pk).prompt.turns[3].is_native

    leave_out_above(two)

    assert not prepare(three.pk).prompt.turns[1].is_native


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
@databases
def test_no_api_gets_what_is_left_out(dialect: str, make_run: MakeRun) -> None:
    """A call above with its result, and one below."""
    one = answered(make_run("Hidden one", dialect=dialect), "Hidden answer")
    two = answered(send_below(one, "two"), "To two")
    log: list[canonical.Event] = [
        canonical.ToolCallStart(item=0, tool="gauge", call_id="c", executes="client"),
        canonical.ToolCallArguments(item=0, tool="gauge", arguments={"at": "Ford"}, call_id="c"),
        canonical.ToolCallSuccess(
            item=0, tool="gauge", arguments={"at": "Ford"}, output="2 m", call_id="c"
        ),
    ]
    calling = send_below(two, "three")
    fold = Fold()
    fold.extend(log)
    write_ending(calling, [*log, *close_open(fold, "stopped")], after=0)
    Run.objects.update(dialect=dialect, response_id="resp_1", status=RunStatus.COMPLETED)
    four = send_below(calling, "four")
    leave_out_above(calling)

    ready = prepare(four.pk)
    request = ready.dialect.request(ready.prompt)

    body = request.body.decode()
    assert "Hidden" not in body
    assert "two" not in body
    assert "four" in body
    assert "resp_1" not in body
    assert "4 earlier messages were not sent." in request.notes
    assert isinstance(ready.prompt.turns[0], UserTurn)


@databases
def test_files_above_are_not_read(make_run: MakeRun) -> None:
    one, two = talk(make_run, "one", "two")
    attach_document(question_of(one), "old.pdf", ["Old text."], use="tools")
    attach_file(question_of(one), "gone.png", b"", media_type="image/png")
    attach_document(question_of(two), "new.pdf", ["New text."], body=b"%PDF-2", use="tools")
    leave_out_above(two)
    three = send_below(two, "three")
    prompt = prepare(three.pk).prompt

    assert "new.pdf" in prompt.turns[0].text
    assert [file.name for file in attached_documents(Run.objects.get(pk=three.pk))] == ["new.pdf"]


# --- choices -----------------------------------------------------------------------------------------


@databases
def test_choices_are_signed_and_can_be_changed(make_run: MakeRun, alice: User) -> None:
    one, two, three = talk(make_run, "one", "two", "three")
    room = one.message.conversation
    with pytest.raises(ActionRefused):
        leave_out_above(one)
    with pytest.raises(ActionRefused):
        actions.leave_out_above(alice, two.message)

    leave_out_above(three)
    leave_out_above(two)
    assert said(send_below(three, "four"))[0] == "two"
    leave_out_above(three)
    assert said(send_below(three, "five"))[0] == "three"
    actions.include_all(alice, room)
    actions.include_all(alice, room)

    changes = ConversationChange.objects.order_by("pk").values_list("kind", "name", "actor__name")
    assert [kind for kind, *_ in changes] == ["context_cut"] * 3 + ["context_whole"]
    assert list(changes)[1][1:] == ("two", alice.name)


@databases
def test_edit_keeps_what_is_sent(make_run: MakeRun, alice: User) -> None:
    _, two, three = talk(make_run, "one", "two", "three")
    leave_out_above(three)

    def edit(run: Run) -> Run:
        assert run.upstream is not None
        return edit_message(
            alice,
            question_of(run),
            text="edited",
            choice=ModelChoice(upstream=run.upstream, model=run.model),
            idempotency_key=uuid.uuid4(),
        )

    assert said(edit(three)) == ["edited"]
    leave_out_above(two)
    assert said(edit(three)) == ["two", "To two", "edited"]


@pytest.mark.databases
def test_summary_is_asked_for_once(make_run: MakeRun, alice: User) -> None:
    (one,) = talk(make_run, "one")
    assert one.upstream is not None
    key = uuid.uuid4()
    for _ in range(2):
        actions.ask_for_summary(
            alice,
            one.message.conversation,
            parent=one.message.public_id,
            choice=ModelChoice(upstream=one.upstream, model=one.model),
            idempotency_key=key,
        )

    assert ContextStart.objects.count() == 1
    with pytest.raises(ActionRefused):
        summarize(Run.objects.get(message__parent__parent=one.message))


@databases
def test_fork_is_sent_what_its_original_was(make_run: MakeRun, alice: User) -> None:
    one, two, three = talk(make_run, "one", "two", "three")
    leave_out_above(three)
    leave_out_above(two)
    prepare(three.pk)
    copy = fork(alice, one.message.conversation, idempotency_key=uuid.uuid4())
    last = Run.objects.filter(conversation=copy).order_by("pk").last()
    assert last is not None

    assert said(send_below(last, "four"))[0] == "two"
    assert SentContext.objects.filter(run__conversation=copy, start__text="two").exists()
