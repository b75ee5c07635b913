"""The functions by which models load skills: what they answer, whose skills they reach, and whole answers with them."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from chat import access
from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.conversation import MOST_SKILLS_ON, switch_tools
from chat.conversations.actions.messages import ModelChoice, definitions_of
from chat.core.errors import ActionRefused
from chat.forks.actions import fork
from chat.models import (
    CallStatus,
    Conversation,
    Membership,
    Run,
    Skill,
    Team,
    Tool,
    ToolKind,
    Upstream,
    User,
)
from chat.result.own_functions import FunctionRefused, feature_of
from chat.skills import functions
from chat.skills.actions import delete_skill, import_skills
from chat.skills.archive import read_upload
from chat.skills.functions import answer, enabled_skills
from chat.tools import endings
from chat.tools.kinds import CallFailed
from chat.tools.skills import _answer
from tests.runs.helpers import text_of, threads, until, until_ended
from tests.runs.waiting import call, calling, ended, result_of, saying, wire_call
from tests.skills.helpers import make_skill
from tests.support.run_fixtures import Execute, StartRunner
from tests.support.upstream.fake import FakeUpstream
from tests.tools.calling import call_of, calls_of, claim, follow_up_of, given_to


@pytest.fixture
def skill(alice: User, team: Team, conversation: Conversation) -> Skill:
    """The weekly report of the team, which is switched on."""
    skill = make_skill(alice, team)
    conversation.skills.add(skill)
    return skill


def ask(user: User, conversation: Conversation, upstream: Upstream, **choice: Any) -> Run:
    return message_actions.send_message(
        user,
        conversation,
        parent=None,
        text="How is the lock?",
        choice=ModelChoice(upstream=upstream, model="test/model", **choice),
        idempotency_key=uuid.uuid4(),
    )


def names(definitions: Any) -> list[str]:
    return [each["name"] for each in definitions]


def loaded(person: User, conversation: Conversation, function: str, **arguments: Any) -> str:
    return answer(function, arguments, enabled_skills(conversation, person))


# --- definitions ----------------------------------------------------------------------------------


def test_run_gets_the_functions_with_the_names_and_descriptions(
    alice: User, conversation: Conversation, upstream: Upstream, skill: Skill
) -> None:
    run = ask(alice, conversation, upstream)

    load, read = run.tools
    assert (load["name"], read["name"]) == ("load_skill", "read_skill_file")
    assert load["feature"] == read["feature"] == "skills"
    assert "- weekly-report: Writes the weekly report of the lock." in load["description"]
    assert load["schema"]["properties"]["name"]["enum"] == ["weekly-report"]
    assert "water level" not in json.dumps(run.tools)


def test_only_skills_that_the_person_may_use_are_offered(
    alice: User, bob: User, conversation: Conversation, skill: Skill
) -> None:
    conversation.skills.add(make_skill(alice, name="own"))

    def offered(person: User) -> list[str]:
        found = definitions_of(conversation, person)
        return found[0]["schema"]["properties"]["name"]["enum"] if found else []

    assert offered(alice) == ["own", "weekly-report"]
    assert offered(bob) == ["weekly-report"]
    Membership.objects.filter(user=bob).update(role="guest")
    assert offered(bob) == []


def test_own_skill_goes_before_that_of_the_team(
    alice: User, bob: User, conversation: Conversation, skill: Skill
) -> None:
    conversation.skills.add(make_skill(alice, name="weekly-report", body="My way.\n"))

    assert "My way." in loaded(alice, conversation, "load_skill", name="weekly-report")
    assert "water level" in loaded(bob, conversation, "load_skill", name="weekly-report")
    (load, _) = definitions_of(conversation, alice)
    assert "- weekly-report: Does weekly-report." in load["description"]
    assert load["schema"]["properties"]["name"]["enum"] == ["weekly-report"]


def test_names_of_tools_are_left_to_them_and_many_tools_are_deferred(
    alice: User, team: Team, conversation: Conversation, skill: Skill, settings: Any
) -> None:
    settings.TOOLS_IN_REQUEST = 1
    for name in ("load_skill", "weather"):
        conversation.tools.add(Tool.objects.create(team=team, name=name))

    found = definitions_of(conversation, alice)

    assert names(found) == [
        *("load_skill", "weather"),
        *("conversation_load_skill", "conversation_read_skill_file"),
    ]
    assert [bool(each.get("is_deferred")) for each in found] == [True, True, False, False]
    text = loaded(alice, conversation, "conversation_load_skill", name="weekly-report")
    assert "which conversation_read_skill_file reads" in text
    assert names(definitions_of(conversation, alice, for_client=True)) == ["load_skill", "weather"]


def test_many_long_descriptions_are_bounded(alice: User, conversation: Conversation) -> None:
    for number in range(30):
        text = f"---\nname: s{number}\ndescription: {'é' * 1000}\n---\n"
        conversation.skills.add(_imported(alice, text))

    load, _ = definitions_of(conversation, alice)

    assert len(load["description"].encode()) < 26_000
    assert "- s29" in load["description"]


def _imported(alice: User, text: str) -> Skill:
    return import_skills(alice, None, read_upload(text.encode()).skills)[0]


def test_send_without_skills_asks_nothing_about_them(
    alice: User, conversation: Conversation, upstream: Upstream, skill: Skill
) -> None:
    def statements() -> list[str]:
        room = access.get_conversation(alice, conversation.public_id, for_write=True)
        with CaptureQueriesContext(connection) as captured:
            ask(alice, room, upstream)
        return [each["sql"] for each in captured if "skill" in each["sql"].lower()]

    asked = [each for each in statements() if each.startswith("SELECT")]
    conversation.skills.clear()

    assert len(asked) == 1
    assert statements() == []


def test_marks_of_functions_that_are_stored() -> None:
    marks = [{"feature": "skills"}, {"feature": "http"}, {"is_for_files": True}, {}]

    # A run that waits since an earlier version has the mark that there was; nothing else is a feature.
    assert [feature_of(each) for each in marks] == ["skills", "", "files", ""]


# --- what they answer -----------------------------------------------------------------------------


def test_skill_is_loaded_with_the_list_of_its_files(
    alice: User, conversation: Conversation, skill: Skill
) -> None:
    text = loaded(alice, conversation, "load_skill", name="weekly-report")

    assert text.startswith("[Skill: weekly-report]\n# Weekly report\n")
    assert "allowed-tools" not in text
    assert "- scripts/measure.py (20 bytes)" in text
    assert "nothing runs them" in text


def test_files_are_read(alice: User, conversation: Conversation, skill: Skill) -> None:
    def read(path: str, **more: Any) -> str:
        return loaded(
            alice, conversation, "read_skill_file", name="weekly-report", path=path, **more
        )

    assert "Above four metres" in read("references/levels.md")
    assert "Above four metres" in read("./references/levels.md")
    assert 'print("<b>4.2</b>")' in read("weekly-report/scripts/measure.py")
    assert "license: MIT" in read("SKILL.md")
    for path, sentence in (
        ("../../etc/passwd", "The skill has no file"),
        ("assets/lock.png", "isn’t text"),
        ("", "no file “”. Its files:\n- SKILL.md\n- assets/lock.png"),
    ):
        with pytest.raises(FunctionRefused, match=sentence):
            read(path)
    with pytest.raises(FunctionRefused, match="whole number"):
        read("SKILL.md", from_line="two")


def test_long_text_comes_in_several_answers(
    alice: User, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(functions, "ANSWER_CHARACTERS", 20)
    monkeypatch.setattr(functions, "LINE_CHARACTERS", 10)
    lines = [f"Line {number}" for number in range(1, 6)]
    conversation.skills.add(make_skill(alice, name="long", body="\n".join([*lines, "x" * 25])))
    said: list[str] = []

    text = loaded(alice, conversation, "load_skill", name="long")
    while True:
        *more, last = text.split("\n")[1:]
        said += more
        if not last.startswith("[More follows: call read_skill_file"):
            said.append(last)
            break
        line = int(last.rpartition("=")[2].rstrip("]"))
        text = loaded(
            alice, conversation, "read_skill_file", name="long", path="SKILL.md", from_line=line
        )

    assert said == [*lines, "x" * 10, "x" * 10, "x" * 5]


def test_skill_that_is_gone_is_said_to_be(
    alice: User, bob: User, conversation: Conversation, skill: Skill
) -> None:
    for person, name in ((alice, "none"), (alice, ""), (None, "weekly-report")):
        with pytest.raises(FunctionRefused, match="isn’t available"):
            loaded(person, conversation, "load_skill", name=name)  # type: ignore[arg-type]
    delete_skill(alice, skill)
    with pytest.raises(FunctionRefused, match="Available skills: none"):
        loaded(alice, conversation, "load_skill", name="weekly-report")


# --- calls ----------------------------------------------------------------------------------------


def carried_out(run: Run) -> None:
    """Runs the queued calls as a runner does."""
    for claimed in claim(run):
        try:
            ending = _answer(claimed.address.run, claimed.address.name, claimed.arguments)
        except CallFailed as failed:
            endings.end_call(claimed.pk, claimed.claim, failed)
        else:
            endings.end_call(claimed.pk, claimed.claim, ending)


def test_call_runs_without_anybody(
    alice: User, conversation: Conversation, upstream: Upstream, skill: Skill
) -> None:
    run = ended(
        ask(alice, conversation, upstream),
        result_of(call("c1", "load_skill", name="weekly-report")),
    )
    assert (call_of(run).status, call_of(run).kind) == (CallStatus.QUEUED, ToolKind.SKILLS)

    carried_out(run)

    assert call_of(run).status == CallStatus.DONE
    assert "water level" in given_to(run)
    follow_up = follow_up_of(run)
    assert follow_up is not None
    assert names(follow_up.tools) == ["load_skill", "read_skill_file"]


def test_skill_that_was_taken_away_before_the_call(
    alice: User, bob: User, conversation: Conversation, upstream: Upstream, skill: Skill
) -> None:
    run = ended(
        ask(bob, conversation, upstream),
        result_of(call("c1", "load_skill", name="weekly-report")),
    )
    Membership.objects.filter(user=bob).update(role="guest")
    conversation.participants.create(person=bob, role="writer")

    carried_out(run)

    assert call_of(run).status == CallStatus.FAILED
    assert "isn’t available" in given_to(run)


def test_call_of_an_answer_without_skills_is_for_nobody(
    alice: User, conversation: Conversation, upstream: Upstream, team: Team
) -> None:
    conversation.tools.add(Tool.objects.create(team=team, name="weather"))

    run = ended(ask(alice, conversation, upstream), result_of(call("c1", "load_skill", name="x")))

    assert [each.status for each in calls_of(run)] == [CallStatus.REFUSED]


# --- conversations --------------------------------------------------------------------------------


def test_number_of_skills_is_bounded(alice: User, conversation: Conversation) -> None:
    skills = [make_skill(alice, name=f"s{number}") for number in range(MOST_SKILLS_ON + 1)]

    with pytest.raises(ActionRefused, match="at most 20 skills"):
        switch_tools(alice, conversation, [], skills=skills)

    assert conversation.skills.count() == 0


def test_copy_keeps_the_skills_that_its_owner_may_use(
    alice: User, bob: User, conversation: Conversation, upstream: Upstream, skill: Skill
) -> None:
    conversation.skills.add(make_skill(alice, name="own"))
    Conversation.objects.update(shows_settings=True)
    run = ended(ask(alice, conversation, upstream), result_of())

    room = access.get_conversation(bob, conversation.public_id)
    copy = fork(bob, room, at=run.message, idempotency_key=uuid.uuid4())

    assert [each.name for each in copy.skills.all()] == ["weekly-report"]


# --- a whole answer -------------------------------------------------------------------------------


@pytest.mark.databases
async def test_answer_loads_a_skill_by_itself(
    fake: FakeUpstream, queue_run: Execute, start_runner: StartRunner
) -> None:
    scripts = [
        calling(wire_call(0, "c1", "load_skill", '{"name": "weekly-report"}')),
        calling(
            wire_call(
                0,
                "c2",
                "read_skill_file",
                '{"name": "weekly-report", "path": "references/levels.md"}',
            )
        ),
        saying("It is high."),
    ]
    run = await queue_run(*scripts, dialect="openai_chat")

    def switch_on() -> None:
        room = Conversation.objects.get(pk=run.conversation_id)
        room.skills.add(make_skill(run.requested_by, room.team))
        Run.objects.filter(pk=run.pk).update(tools=definitions_of(room, run.requested_by))

    await threads.call(switch_on)
    await start_runner()
    await until(lambda: Run.objects.filter(message=run.message_id, position=2).exists())
    last = await threads.call(lambda: Run.objects.get(message=run.message_id, position=2))
    ended_run = await until_ended(last)

    assert text_of(ended_run).endswith("It is high.")
    first, *_, final = fake.requests
    assert [each["function"]["name"] for each in first.body["tools"]] == [
        "load_skill",
        "read_skill_file",
    ]
    given = [each["content"] for each in final.body["messages"] if each["role"] == "tool"]
    assert "Begin with the **water level**" in given[0]
    assert "Above four metres: high." in given[1]
