"""A team's function tools: managed on the team's page, switched on beside the composer."""

from __future__ import annotations

import json

import pytest
from django.test import Client
from django.urls import reverse

from chat.models import Run, Team, Tool, Upstream
from tests.support.rooms import HTMX, Headers, Patches, Room, filled_form, get_page, url_of

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


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


def test_owner_adds_a_tool_that_members_see(as_alice: Client, as_bob: Client, team: Team) -> None:
    status, _ = add(as_alice, team, description="How wet <it> is", schema=json.dumps(SCHEMA))

    assert status == 302
    tool = Tool.objects.get()
    assert (tool.name, tool.schema) == ("rain", SCHEMA)
    page = as_bob.get(reverse("tools")).content.decode()
    assert "How wet &lt;it&gt; is" in page
    assert url_of("tool", tool) not in page


def test_tool_without_arguments_needs_no_schema(as_alice: Client, team: Team) -> None:
    add(as_alice, team)

    assert Tool.objects.get().schema == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"name": "no spaces"}, "letters, digits, underscores and dashes"),
        ({"name": "x" * 65}, "letters, digits, underscores and dashes"),
        ({"name": ""}, "This field is required"),
        ({"schema": '{"type": "object",\n}'}, "on line 2"),
        ({"schema": "[]"}, "&quot;type&quot;: &quot;object&quot;"),
        ({"schema": '{"type": "string"}'}, "&quot;type&quot;: &quot;object&quot;"),
        ({"name": "river_level"}, "already has a tool named river_level"),
    ],
    ids=["space", "long", "empty", "no json", "list", "string", "taken"],
)
def test_invalid_tool_is_refused_and_stays_in_the_form(
    as_alice: Client, team: Team, gauge: Tool, wrong: dict[str, str], words: str
) -> None:
    status, page = add(as_alice, team, description="Keep <this>", **wrong)

    assert status == 422
    assert words in page
    assert "Keep &lt;this&gt;" in page
    assert Tool.objects.count() == 1


def test_schema_has_a_largest_size(
    as_alice: Client, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = json.dumps(SCHEMA)

    for limit, expected in [(len(schema) - 1, 422), (len(schema), 302)]:
        monkeypatch.setattr("chat.tools.actions.SCHEMA_BYTES", limit)
        status, page = add(as_alice, team, schema=schema)

        assert status == expected
        assert ("The schema is larger than" in page) == (expected == 422)
    assert Tool.objects.count() == 1


def test_tool_is_shown_and_changed(as_alice: Client, gauge: Tool) -> None:
    url = url_of("tool", gauge)

    (schema,) = get_page(as_alice, url).xpath("//textarea[@name='schema']")
    as_alice.post(url, fields(name="river_level_2", schema=json.dumps(SCHEMA)))

    assert json.loads(schema.text_content()) == SCHEMA
    gauge.refresh_from_db()
    assert (gauge.name, gauge.description) == ("river_level_2", "")


def test_removed_tool_disappears_from_conversations(
    as_alice: Client, gauge: Tool, room: Room
) -> None:
    room.conversation.tools.add(gauge)

    as_alice.post(url_of("tool_remove", gauge))

    assert list(room.conversation.tools.all()) == []


# --- beside the composer --------------------------------------------------------------------


def switch_on(client: Client, room: Room, headers: Headers, *tools: Tool) -> Patches:
    data = {"tools": [str(tool.public_id) for tool in tools]}
    return Patches(
        client.post(url_of("conversation_tools", room.conversation), data, headers=headers)
    )


def mark_of(client: Client, room: Room) -> str:
    """The mark of the tools that a page shows."""
    return str(client.get(room.url).context["tool_choice"].mark)


def test_team_without_tools_has_no_menu(as_bob: Client, room: Room) -> None:
    assert "tools-menu" not in room.source(as_bob)


def test_enabled_tool_is_offered_to_the_next_run(as_bob: Client, room: Room, gauge: Tool) -> None:
    answer = room.turn("First")
    headers = room.position(answer, tools=mark_of(as_bob, room))

    patches = switch_on(as_bob, room, headers, gauge)

    assert [words for _, words in patches.to("#tools-count")] == ["1"]
    assert patches.tree.xpath("//input[@name='tools' and @checked]")
    run = room.ask("Second", answer)
    assert [tool["name"] for tool in run.tools] == ["river_level"]


def test_switch_reaches_the_pages_of_colleagues(as_bob: Client, room: Room, gauge: Tool) -> None:
    headers = room.position(room.turn("First"), tools=mark_of(as_bob, room))
    assert room.changes(as_bob, headers).to("#tools-count") == []
    room.conversation.tools.add(gauge)

    patches = room.changes(as_bob, headers)

    assert [words for _, words in patches.to("#tools-count")] == ["1"]


def test_first_tool_of_a_team_brings_the_menu(as_bob: Client, room: Room, gauge: Tool) -> None:
    headers = room.position(room.turn("First"), tools="")

    assert "How high <it> is" in room.changes(as_bob, headers).text("#tools-slot")


def test_tool_of_another_team_cannot_be_switched_on(
    as_bob: Client, room: Room, other_team: Team
) -> None:
    foreign = Tool.objects.create(team=other_team, name="gauge")

    patches = switch_on(as_bob, room, HTMX, foreign)

    assert "no longer exists" in patches.text("#tools-note")
    assert list(room.conversation.tools.all()) == []


def test_servers_without_tools_are_named(
    as_bob: Client, room: Room, gauge: Tool, upstream: Upstream
) -> None:
    Upstream.objects.create(name="Other", dialect="openai_chat", base_url="http://127.0.0.1:9")

    notes = room.page(as_bob).xpath(
        "//details[contains(@class, 'tools-menu')]//*[@data-only-dialect]"
    )

    assert [note.get("data-only-dialect") for note in notes] == ["lmstudio"]


def test_new_conversation_can_begin_with_tools(
    as_bob: Client, gauge: Tool, team: Team, upstream: Upstream
) -> None:
    page = as_bob.get(reverse("home")).content.decode()

    as_bob.post(
        reverse("conversation_new"),
        filled_form(upstream, team=team.public_id.hex, visibility="team", tools=gauge.public_id),
    )

    assert f'value="{gauge.public_id}"' in page
    run = Run.objects.get()
    assert [tool["name"] for tool in run.tools] == ["river_level"]
    assert list(run.conversation.tools.all()) == [gauge]
