"""A team's function tools: kept beside its members, switched on beside the composer."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.models import Run, Team, Tool, Upstream, User
from tests.views.conftest import HTMX, Patches, Room, address, position

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
Form = Callable[..., dict[str, str]]


@pytest.fixture
def gauge(team: Team) -> Tool:
    return Tool.objects.create(
        team=team, name="river_level", description="How high <it> is", schema=SCHEMA
    )


def fields(**more: str) -> dict[str, str]:
    return {"name": "rain", "description": "", "schema": "", **more}


def add(client: Client, team: Team, **more: str) -> tuple[int, str]:
    response = client.post(reverse("tool_add", args=[team.public_id]), fields(**more))
    return response.status_code, response.content.decode()


# --- the team's page ---------------------------------------------------------------------


def test_an_owner_adds_a_tool_and_everybody_in_the_team_sees_it(
    as_alice: Client, as_bob: Client, team: Team
) -> None:
    status, _ = add(as_alice, team, description="How wet <it> is", schema=json.dumps(SCHEMA))

    assert status == 302
    tool = Tool.objects.get()
    assert (tool.name, tool.schema) == ("rain", SCHEMA)
    page = as_bob.get(reverse("people")).content.decode()
    assert "How wet &lt;it&gt; is" in page
    assert reverse("tool", args=[tool.public_id]) not in page


def test_a_tool_without_arguments_needs_no_schema(as_alice: Client, team: Team) -> None:
    add(as_alice, team)

    assert Tool.objects.get().schema == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": "no spaces"}, "letters, digits, underscores and dashes"),
        ({"name": "x" * 65}, "letters, digits, underscores and dashes"),
        ({"name": ""}, "This field is required"),
        ({"schema": '{"type": "object",\n}'}, "in line 2"),
        ({"schema": "[]"}, "&quot;type&quot;: &quot;object&quot;"),
        ({"schema": '{"type": "string"}'}, "&quot;type&quot;: &quot;object&quot;"),
        ({"name": "river_level"}, "already has a tool called river_level"),
    ],
    ids=["space", "long", "empty", "no json", "list", "string", "taken"],
)
def test_what_no_server_would_take_is_refused_and_stays_in_the_form(
    as_alice: Client, team: Team, gauge: Tool, wrong: dict[str, str], words: str
) -> None:
    status, page = add(as_alice, team, description="Keep <this>", **wrong)

    assert status == 422
    assert words in page
    assert "Keep &lt;this&gt;" in page
    assert Tool.objects.count() == 1


def test_a_tool_is_shown_as_it_is_and_changed(as_alice: Client, gauge: Tool) -> None:
    url = reverse("tool", args=[gauge.public_id])

    page = html.fromstring(as_alice.get(url).content.decode())
    as_alice.post(url, fields(name="river_level_2", schema=json.dumps(SCHEMA)))

    assert json.loads(page.xpath("//textarea[@name='schema']")[0].text_content()) == SCHEMA
    gauge.refresh_from_db()
    assert (gauge.name, gauge.description) == ("river_level_2", "")


def test_a_removed_tool_is_gone_from_its_conversations(
    as_alice: Client, gauge: Tool, room: Room
) -> None:
    room.conversation.tools.add(gauge)

    as_alice.post(reverse("tool_remove", args=[gauge.public_id]))

    assert list(room.conversation.tools.all()) == []


# --- beside the composer --------------------------------------------------------------------


def switch(client: Client, room: Room, headers: dict[str, str], *tools: Tool) -> Patches:
    data = {"tools": [str(tool.public_id) for tool in tools]}
    return Patches(
        client.post(address("conversation_tools", room.conversation), data, headers=headers)
    )


def test_a_team_without_tools_has_no_menu_for_them(as_bob: Client, room: Room) -> None:
    page = as_bob.get(address("conversation", room.conversation)).content.decode()

    assert "tools-menu" not in page


def test_switching_a_tool_on_counts_it_and_offers_it_to_the_next_run(
    as_bob: Client, room: Room, gauge: Tool, alice: User
) -> None:
    answer = room.turn(alice, "First")
    page = as_bob.get(address("conversation", room.conversation))
    mark = page.context["tool_choice"].mark

    patches = switch(
        as_bob, room, position(answer.parent, answer, room.conversation, tools=mark), gauge
    )

    assert [words for _, words in patches.to("#tools-count")] == ["1"]
    assert patches.tree.xpath("//input[@name='tools' and @checked]")
    run = room.ask(alice, "Second", answer)
    assert [tool["name"] for tool in run.tools] == ["river_level"]


def test_a_colleagues_page_hears_of_the_switch(
    as_bob: Client, room: Room, gauge: Tool, alice: User
) -> None:
    answer = room.turn(alice, "First")
    page = as_bob.get(address("conversation", room.conversation))
    headers = position(
        answer.parent, answer, room.conversation, tools=page.context["tool_choice"].mark
    )
    url = address("conversation_changes", room.conversation)
    assert Patches(as_bob.get(url, headers=headers)).to("#tools-count") == []
    room.conversation.tools.add(gauge)

    patches = Patches(as_bob.get(url, headers=headers))

    assert [words for _, words in patches.to("#tools-count")] == ["1"]


def test_the_first_tool_of_a_team_brings_the_menu(
    as_bob: Client, room: Room, gauge: Tool, alice: User
) -> None:
    answer = room.turn(alice, "First")
    headers = position(answer.parent, answer, room.conversation, tools="")

    patches = Patches(
        as_bob.get(address("conversation_changes", room.conversation), headers=headers)
    )

    assert "How high <it> is" in patches.to("#tools-slot")[0][1]


def test_a_tool_of_another_team_cannot_be_switched_on(
    as_bob: Client, room: Room, other_team: Team
) -> None:
    foreign = Tool.objects.create(team=other_team, name="gauge")

    patches = switch(as_bob, room, HTMX, foreign)

    assert "not there any more" in patches.to("#tools-note")[0][1]
    assert list(room.conversation.tools.all()) == []


def test_servers_that_take_no_tools_are_named(
    as_bob: Client, room: Room, gauge: Tool, upstream: Upstream
) -> None:
    Upstream.objects.create(name="Other", dialect="openai_chat", base_url="http://127.0.0.1:9")

    page = html.fromstring(as_bob.get(address("conversation", room.conversation)).content.decode())

    notes = page.xpath("//details[contains(@class, 'tools-menu')]//*[@data-dialect]")
    assert [note.get("data-dialect") for note in notes] == ["lmstudio"]


def test_a_new_conversation_may_begin_with_tools(
    as_bob: Client, gauge: Tool, team: Team, form_of: Form
) -> None:
    page = as_bob.get(reverse("home")).content.decode()

    as_bob.post(
        reverse("conversation_new"),
        form_of(team=team.public_id.hex, visibility="team", tools=gauge.public_id),
    )

    assert f'value="{gauge.public_id}"' in page
    run = Run.objects.get()
    assert [tool["name"] for tool in run.tools] == ["river_level"]
    assert list(run.conversation.tools.all()) == [gauge]
