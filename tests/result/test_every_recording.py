"""Every recording that waits for a person is settled, continued and merged."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import transaction

from chat import events as canonical
from chat.dialects import DIALECTS
from chat.models import Conversation, QuestionKind, Run, Upstream, User
from chat.questions import actions
from chat.result import Fold, finish
from chat.result.merge import merge, waiting_calls
from chat.runs.prompt import prepare
from chat.runs.resume import ContinuingParser, opening
from chat.wire.sse import Decoder
from tests.runs.waiting import asking, ended, questions_of

FIXTURES = Path(__file__).parent.parent / "fixtures"


def recorded(path: Path) -> canonical.Result:
    return canonical.decode_result(path.read_bytes())


def that_wait() -> list[Path]:
    """The recordings that a person has to settle."""
    found = sorted(FIXTURES.glob("*/*.result.json"))
    return [path for path in found if recorded(path).ext.status == "waiting"]


def settle_all(user: User, run: Run) -> tuple[Run, list[str]]:
    """The run that continues, and what was said."""
    said: list[str] = []
    follow_up: Run | None = None
    for number, question in enumerate(questions_of(run)):
        words = f"said-{number}"
        if question.kind == QuestionKind.TOOL:
            follow_up = actions.give_result(user, question, words)
        elif question.kind == QuestionKind.APPROVAL:
            follow_up = actions.approve(user, question, is_approved=True, reason=words)
        else:
            options = [option.value for option in actions.options_of(question)][:1]
            fields = {field.name: words for field in actions.fields_of(question)}
            words = words if fields or not options else options[0]
            text = words if not (fields or options) else ""
            follow_up = actions.answer(user, question, selected=options, fields=fields, text=text)
        said.append(words)
    assert follow_up is not None
    return follow_up, said


def continued(follow_up: Run, path: Path) -> canonical.Result:
    """What the follow-up's log folds to, if its server says the same again."""
    dialect = DIALECTS[path.parent.name]
    begun = opening(follow_up)
    first_item = sum(isinstance(event, canonical.ItemEvent) for event in begun)
    inner = dialect.parser(model="m", endpoint="e", options={})
    parser = ContinuingParser(inner, first_item=first_item, model="m")
    fold = Fold()
    fold.extend(begun)
    body = path.with_name(path.name.replace(".result.json", ".sse"))
    if body.exists():
        decoder = Decoder()
        for frame in [*decoder.feed(body.read_bytes()), *decoder.close()]:
            fold.extend(parser.feed(frame))
    else:
        fold.extend(parser.feed_body(body.with_suffix(".json").read_bytes()))
    finish(parser, fold)
    return fold.result()


def test_settled_runs_make_one_answer(
    alice: User, conversation: Conversation, upstream: Upstream, subtests: pytest.Subtests
) -> None:
    paths = that_wait()
    assert paths

    for path in paths:
        label = f"{path.parent.name}/{path.name}"
        with subtests.test(msg=label), transaction.atomic():
            check(path, alice, conversation, upstream)
            transaction.set_rollback(True)


def check(path: Path, user: User, conversation: Conversation, upstream: Upstream) -> None:
    Upstream.objects.update(dialect=path.parent.name)
    upstream.refresh_from_db()
    first = recorded(path)
    run = ended(asking(user, conversation, upstream), first)

    follow_up, said = settle_all(user, run)
    prompt = prepare(follow_up.pk).prompt
    request = DIALECTS[path.parent.name].request(prompt)
    second = continued(follow_up, path)
    merged = merge([first, second])

    assert prompt.goes_on
    for words in said:
        assert words.encode() in request.body
    asked = waiting_calls(first)
    calls = [item for item in merged.output if isinstance(item, canonical.ToolCallItem)]
    assert [call.output for call in calls if call.output in said] == [
        *(words for words, _ in zip(said, asked, strict=False)),
    ]
    own = second.output[len(asked) :]
    assert [type(item) for item in own] == [type(item) for item in first.output]
    assert len(merged.output) == len(first.output) + len(own)
