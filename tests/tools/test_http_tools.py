"""HTTP tools of a team: their form, what is refused, and what of them is kept secret."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from chat.conversations.actions.messages import definitions_of
from chat.core.errors import ActionRefused
from chat.models import AuditEvent, Team, Tool, ToolKind, ToolServer, User
from chat.tools import actions
from chat.tools.actions import CallTraits, HttpRequestValues
from chat.tools.definition_check import check_definition
from chat.tools.http_definition import check_address, read_headers
from tests.support.rooms import Room, get_page, text_of, url_of
from tests.support.tool_calls import http_tool

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "unit": {"enum": ["m", "ft"]}},
    "required": ["city"],
}
ADDRESS = "https://api.example/rivers/{city}"
SECRET = "Authorization: Bearer s3cret"


@pytest.fixture(autouse=True)
def _teams_define_requests(settings: Settings) -> None:
    settings.TEAM_TOOL_SERVERS = True


def fields(**more: str) -> dict[str, str]:
    values = {
        "kind": "http",
        "name": "river_level",
        "description": "",
        "method": "GET",
        "address": ADDRESS,
        "headers": SECRET,
        "schema": json.dumps(SCHEMA),
        "is_read_only": "on",
        "rule": "auto",
        **more,
    }
    return {name: value for name, value in values.items() if value != "-"}


def add(client: Client, team: Team, **more: str) -> tuple[int, str]:
    response = client.post(reverse("tool_add", args=[team.public_id]), fields(**more))
    return response.status_code, response.content.decode()


def test_manager_adds_a_request_whose_headers_nobody_sees_again(
    as_alice: Client, as_bob: Client, team: Team
) -> None:
    status, _ = add(as_alice, team)

    tool = Tool.objects.get()
    page = as_alice.get(url_of("tool", tool)).content.decode()
    listed = as_bob.get(reverse("tools")).content.decode()
    assert status == 302
    assert (tool.kind, tool.rule, tool.is_read_only) == ("http", "auto", True)
    assert (tool.request.method, tool.request.address) == ("GET", ADDRESS)
    assert tool.request.open_headers() == {"Authorization": "Bearer s3cret"}
    assert "api.example" in listed
    assert "/rivers/" not in listed
    stored = json.dumps(list(AuditEvent.objects.values("detail")), default=str)
    for text in (page, listed, tool.request.sealed_headers, stored):
        assert "s3cret" not in text


def test_stored_headers_are_kept_replaced_or_removed(as_alice: Client, team: Team) -> None:
    add(as_alice, team)
    url = url_of("tool", Tool.objects.get())

    for more, status, expected in [
        ({"headers": ""}, 302, {"Authorization": "Bearer s3cret"}),
        (
            {"headers": "", "address": "https://other.example/{city}"},
            422,
            {"Authorization": "Bearer s3cret"},
        ),
        ({"headers": "X-Key: 2", "address": "https://other.example/{city}"}, 302, {"X-Key": "2"}),
        ({"headers": "", "clear_headers": "on"}, 302, {}),
    ]:
        response = as_alice.post(url, fields(**more))

        assert response.status_code == status
        assert Tool.objects.get().request.open_headers() == expected


def test_request_ends_when_a_person_gives_the_result(as_alice: Client, team: Team) -> None:
    add(as_alice, team)

    as_alice.post(url_of("tool", Tool.objects.get()), fields(kind="person"))

    tool = Tool.objects.get()
    assert (tool.kind, tool.rule, tool.is_read_only) == ("person", "ask", False)
    assert not hasattr(tool, "request")


WRONG: dict[str, tuple[Mapping[str, str], str]] = {
    "no address": ({"address": ""}, "This field is required"),
    "no scheme": ({"address": "api.example/x"}, "Start the address with http"),
    "another scheme": ({"address": "ftp://api.example/x"}, "Start the address with http"),
    "a place in the host": ({"address": "https://{city}.example/x"}, "part of the host"),
    "a place as the port": ({"address": "https://api.example:{city}/x"}, "part of the host"),
    "a place in the scheme": ({"address": "{city}://api.example/x"}, "Start the address"),
    "a place before an @": (
        {"address": "https://api.example{city}@evil.example/"},
        "part of the host",
    ),
    "a password": ({"address": "https://a:b@api.example/x"}, "user name and password"),
    "a fragment": ({"address": "https://api.example/x#{city}"}, "begins with #"),
    "an open brace": ({"address": "https://api.example/{city"}, "{name}"),
    "a place for nothing": ({"address": "https://api.example/{town}"}, "no such argument"),
    "a place for an optional one": ({"address": "https://api.example/{unit}"}, "required"),
    "an empty place": ({"address": "https://api.example/{}"}, "name of an argument"),
    "a line break": ({"address": "https://api.example/\nx"}, "spaces"),
    "another method": ({"method": "TRACE"}, "TRACE is not one of the available choices"),
    "a header without value": ({"headers": "Authorization"}, "Line 1 must look like"),
    "a header's name": ({"headers": "A b: c"}, "Line 1 must look like"),
    "a reserved header": ({"headers": "host: evil.example"}, "sets the header host"),
    "a header twice": ({"headers": "A: b\na: c"}, "appears twice"),
    "a header of others": ({"headers": "A: ü"}, "special characters"),
    "many headers": ({"headers": "\n".join(f"A{n}: b" for n in range(21))}, "at most 20"),
    "reads and deletes": ({"is_destructive": "on", "rule": "ask"}, "only reads"),
    "deletes by itself": ({"is_destructive": "on", "is_read_only": "-"}, "ask each time"),
    "another rule": ({"rule": "sometimes"}, "sometimes is not one of"),
}


def test_what_is_wrong_is_said_and_nothing_is_stored(
    as_alice: Client, team: Team, subtests: pytest.Subtests
) -> None:
    for label, (wrong, words) in WRONG.items():
        with subtests.test(msg=label):
            status, page = add(as_alice, team, **wrong)

            assert status == 422
            assert words in page.replace("&quot;", '"')
            assert not Tool.objects.exists()
            assert "s3cret" not in page


def test_actions_check_everything_themselves(
    alice: User, team: Team, subtests: pytest.Subtests
) -> None:
    request = HttpRequestValues(method="GET", address=ADDRESS)
    schema = json.dumps(SCHEMA)
    for label, values in {
        "method": {"request": HttpRequestValues(method="TRACE", address=ADDRESS)},
        "address": {"request": HttpRequestValues(method="GET", address="file:///etc/passwd")},
        "headers": {"request": HttpRequestValues(method="GET", address=ADDRESS, headers="x")},
        "rule": {"request": request, "rule": "sometimes"},
        "traits": {"request": request, "rule": "auto", "traits": CallTraits(is_destructive=True)},
    }.items():
        with subtests.test(msg=label), pytest.raises(ActionRefused):
            actions.create_tool(
                alice, team, **{"name": "x", "description": "", "schema": schema, **values}
            )

    assert not Tool.objects.exists()


def test_address_is_kept_as_it_is() -> None:
    for address in (ADDRESS, "http://[::1]:8080/a?b={city}&c=1", "https://api.example"):
        assert check_address(f" {address} ") == address


def test_headers_are_read_line_by_line() -> None:
    assert read_headers("A: b:c\r\n\n X-Key :  d ") == {"A": "b:c", "X-Key": "d"}


# --- who defines requests ---------------------------------------------------------------------


def test_request_is_for_those_who_manage_tool_servers(
    as_alice: Client, alice: User, administrator: User, team: Team, settings: Settings
) -> None:
    settings.TEAM_TOOL_SERVERS = False
    tool = http_tool(team)
    own = Tool.objects.create(team=team, name="gauge")
    offered = 'name="kind" value="http"'

    page = as_alice.get(reverse("tool_add", args=[team.public_id])).content.decode()
    refused = [
        add(as_alice, team)[1],
        as_alice.post(url_of("tool", own), fields()).content.decode(),
    ]
    listed = as_alice.get(reverse("tools")).content.decode()

    assert offered not in page
    assert all("Only administrators can define HTTP requests" in each for each in refused)
    assert [each.kind for each in team.tools.exclude(pk=tool.pk)] == ["person"]
    assert (url_of("tool", own) in listed, url_of("tool", tool) in listed) == (True, False)
    assert "/rooms/" not in listed
    as_alice.force_login(administrator)
    page = as_alice.get(reverse("tool_add", args=[team.public_id])).content.decode()
    assert offered in page
    assert url_of("tool", tool) in as_alice.get(reverse("tools")).content.decode()


def test_actions_refuse_requests_of_others(alice: User, team: Team, settings: Settings) -> None:
    settings.TEAM_TOOL_SERVERS = False
    request = HttpRequestValues(method="GET", address="https://api.example/")
    values = {"name": "x", "description": "", "schema": ""}

    for act in (
        lambda: actions.create_tool(alice, team, **values, request=request),
        lambda: actions.change_tool(alice, http_tool(team), **values),
    ):
        with pytest.raises(ActionRefused, match="Only administrators"):
            act()


# --- the check while typing -------------------------------------------------------------------


def test_check_lists_arguments_and_where_they_go() -> None:
    for method, rest in [("GET", "in the query"), ("POST", "in the JSON body")]:
        found = check_definition(schema=json.dumps(SCHEMA), method=method, address=ADDRESS)

        assert found.problems == []
        assert [(line.name, line.kind, line.place) for line in found.arguments] == [
            ("city", "text", "in the address"),
            ("unit", "one of a list", rest),
        ]


def test_check_tells_what_is_wrong_as_one_types(as_alice: Client, team: Team) -> None:
    url = reverse("tool_check", args=[team.public_id])

    for more, words in [
        ({"address": ""}, "The model sets:"),
        ({"address": "https://api.example/{town}"}, "place for {town}"),
        ({"schema": "{"}, "isn’t valid JSON"),
        ({"schema": "", "address": "https://api.example/"}, "without arguments"),
        ({"kind": "person", "address": "nonsense"}, "The model sets:"),
    ]:
        response = as_alice.post(url, fields(**more))

        assert words in response.content.decode()
        assert "s3cret" not in response.content.decode()


def test_tool_of_a_server_is_changed_on_the_page_of_its_server(
    as_alice: Client, alice: User, team: Team
) -> None:
    server = ToolServer.objects.create(team=team, name="Office", address="https://mcp.example")
    tool = Tool.objects.create(team=team, name="echo", kind=ToolKind.MCP, server=server)

    response = as_alice.post(url_of("tool", tool), fields(rule="auto"))
    actions.remove_tool(alice, tool)

    tool.refresh_from_db()
    assert response["Location"] == reverse("tool_server", args=[server.public_id])
    assert (tool.name, tool.kind, tool.rule) == ("echo", "mcp", "ask")


def test_tools_of_a_disabled_server_are_not_offered(team: Team, room: Room) -> None:
    server = ToolServer.objects.create(team=team, name="Office", address="https://mcp.example")
    tool = Tool.objects.create(team=team, name="echo", kind=ToolKind.MCP, server=server)
    room.conversation.tools.add(tool)

    offered = []
    for is_enabled in (True, False):
        ToolServer.objects.update(is_enabled=is_enabled)
        offered.append(len(definitions_of(room.conversation)))

    assert offered == [1, 0]


def test_list_says_when_each_tool_runs(as_bob: Client, team: Team) -> None:
    for name, rule in [("one", "off"), ("two", "ask"), ("three", "auto")]:
        http_tool(team, name, rule=rule)
    Tool.objects.create(team=team, name="four")

    rows = [text_of(row) for row in get_page(as_bob, reverse("tools")).xpath("//tbody/tr")]

    for row, words in zip(
        rows, ["A person answers", "Off", "Runs by itself", "Asks first"], strict=True
    ):
        assert words in row
