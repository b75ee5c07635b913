"""Adds to the browser's site what the screens of tools need: calls in each state, accounts at tool servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chat.models import Team, Tool, ToolServer, User

# Calls of one answer: the status, the tool, and the other fields of the row.
Calls = Sequence[tuple[str, "Tool", Mapping[str, Any]]]

# Titles of conversations, and what is asked in them.
ROOM = ("A room for Tuesday", "Book a room for the lock keepers on Tuesday.")
BOOK = ("A book about currents", "Reserve the book about currents for me.")
BOOKING = {"room": "Elbe", "hours": 2, "purpose": "Lock keepers\nPlan for the new gauge"}


def call_tools(links: dict[str, str], fake_url: str) -> None:
    """HTTP tools, and conversations whose answers wait for calls of them in each state."""
    from django.utils import timezone

    from chat.models import CallStatus, Team, User
    from tests.support import tool_calls

    river, bob = Team.objects.get(name="River"), User.objects.get(name="Bob")
    schema = {
        "type": "object",
        "properties": {
            "room": {"type": "string", "description": "The room’s name"},
            "hours": {"type": "integer", "description": "How long"},
            "purpose": {"type": "string"},
        },
        "required": ["room", "hours"],
    }
    book = tool_calls.http_tool(river, "reserve_room", schema=schema)
    level = tool_calls.http_tool(river, "gauge_level", is_read_only=True, rule="auto")
    lock = tool_calls.http_tool(river, "close_lock", is_destructive=True, rule="off")
    for tool, description in ((level, "Reads the level of a gauge"), (lock, "Closes a lock")):
        tool.description = description
        tool.save()
    links["http-tool"] = f"/people/tools/{book.public_id}/"
    links["add-tool"] = f"/people/tools/add/{river.public_id}/"
    sent = {"claimed_at": timezone.now(), "sent_at": timezone.now()}
    over = {**sent, "finished_at": timezone.now() + timedelta(seconds=2.4)}
    progress = {"progress": 2, "total": 5, "message": "Asking the gauge at Koblenz"}
    states: dict[str, Calls] = {
        "call-approval": [(CallStatus.APPROVAL, book, {})],
        "call-running": [
            (CallStatus.RUNNING, level, {**sent, "progress": progress}),
            (CallStatus.RUNNING, book, {**sent, "approved_by": bob}),
        ],
        "call-unknown": [
            (
                CallStatus.UNKNOWN,
                book,
                {**sent, "approved_by": bob, "error": "The tool took longer than it may."},
            )
        ],
        "call-over": [
            (CallStatus.DONE, level, over),
            (CallStatus.DONE, book, {**over, "approved_by": bob, "arguments": {"room": "Oder"}}),
            (CallStatus.FAILED, level, {**over, "error": "The server didn’t answer in time."}),
            (CallStatus.REFUSED, book, {}),
        ],
    }
    for name, calls in states.items():
        _ask(links, name, ROOM, calls, BOOKING)


def sign_in_at_tool_servers(links: dict[str, str], fake_url: str) -> None:
    """Servers at which each person signs in, two accounts of Alice, and calls that wait for her.

    ``links["sign-in"]`` is the address of a server at which somebody can begin to sign in.
    """
    from django.utils import timezone

    from chat.models import CallStatus, InputSource, Team, ToolInput, ToolRule, User
    from chat.tools.mcp.listing import RemoteTool, ToolListing
    from chat.tools.server_lists import store_listing

    river = Team.objects.get(name="River")
    ada, alice = (User.objects.get(name=name) for name in ("Ada", "Alice"))
    catalog = _server(ada, river, "Library catalog", "https://catalog.example.org/mcp")
    ledger = _server(ada, river, "Harbor ledger", "https://ledger.harbor.example/mcp")
    notes = _server(ada, river, "Field notes", links.pop("sign-in"))
    links["tool-server-client-id"] = f"/people/tool-servers/{notes.public_id}/"
    _connect(alice, catalog, "https://accounts.example.org")
    _connect(alice, ledger, "https://login.harbor.example", problem="Sign in again at this server.")
    _limit_to_groups(links, catalog)
    schema = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}
    listed = (
        RemoteTool(name="find_book", description="Finds books by title.", is_read_only=True),
        RemoteTool(name="reserve_book", description="Reserves a book.", schema=schema),
        RemoteTool(name="return_book", description="Returns a book.", is_idempotent=True),
        RemoteTool(name="delete_list", description="Deletes a reading list.", is_destructive=True),
    )
    store_listing(catalog, ToolListing(protocol="2026-07-28", tools=listed))
    store_listing(notes, ToolListing(protocol="2026-07-28", tools=listed[1:2]))
    _set_rules(ada, catalog, find_book=ToolRule.AUTO, reserve_book=ToolRule.ASK)
    _set_rules(ada, notes, reserve_book=ToolRule.ASK)
    (reserve,), (note,) = (
        server.tools.filter(remote_name="reserve_book") for server in (catalog, notes)
    )
    mine = {"executor": alice, "is_personal": True, "rule": ToolRule.ASK}
    ended = {"sent_at": timezone.now(), "finished_at": timezone.now() + timedelta(seconds=1.2)}
    failed = {"error": "The server says: This title is on loan until June.", "approved_by": alice}
    private = {
        "keeps_private": True,
        "has_private_result": True,
        "private_output": "Reserved for Alice, shelf 12.",
        "approved_by": alice,
    }
    states: dict[str, Calls] = {
        "call-connect": [(CallStatus.APPROVAL, note, mine)],
        "call-private": [(CallStatus.APPROVAL, reserve, mine)],
        "call-input": [(CallStatus.INPUT, reserve, {**mine, "rounds": 1})],
        "call-input-address": [(CallStatus.INPUT, reserve, {**mine, "rounds": 1})],
        "call-ended": [
            (CallStatus.DONE, reserve, {**mine, **ended, **private}),
            (CallStatus.FAILED, reserve, {**mine, **ended, **failed}),
            (CallStatus.REFUSED, reserve, {**mine, "error": "This tool is turned off."}),
        ],
    }
    _add_librarians(alice, catalog)
    title = {"title": "Currents of the lower river"}
    for name, calls in states.items():
        _ask(links, name, BOOK, calls, title)
    form, address = reserve.calls.filter(status=CallStatus.INPUT).order_by("pk")
    ToolInput.objects.create(
        call=form,
        round=1,
        source=InputSource.OPEN_CALL,
        message="Where do you want to pick the book up?",
        expires_at=timezone.now() + timedelta(minutes=20),
        schema={
            "type": "object",
            "properties": {
                "branch": {
                    "type": "string",
                    "title": "Branch",
                    "enum": ["mill", "harbor"],
                    "enumNames": ["At the mill", "Harbor"],
                },
                "day": {"type": "string", "title": "Day", "format": "date"},
                "copies": {
                    "type": "integer",
                    "title": "Copies",
                    "description": "Four at most",
                    "minimum": 1,
                    "maximum": 4,
                    "default": 1,
                },
                "notify": {"type": "boolean", "title": "Send a reminder"},
                "topics": {
                    "type": "array",
                    "title": "Also reserve",
                    "items": {"type": "string", "enum": ["Maps", "Tide tables"]},
                },
            },
            "required": ["branch", "day"],
        },
    )
    ToolInput.objects.create(
        call=address,
        round=1,
        source=InputSource.RESULT,
        message="Your library card has expired. Renew it, then the reservation continues.",
        url="https://accounts.example.org/cards/renew?card=4711&return=https%3A%2F%2Fcatalog.example.org",
    )


def search_the_web(links: dict[str, str], fake_url: str) -> None:
    """A team with web search, and one without."""
    from chat.models import SearchService, Team, User
    from chat.tools.web.actions import WebSearchValues, set_web_search

    ada = User.objects.get(name="Ada")
    river, estuary = (Team.objects.get(name=name) for name in ("River", "Estuary"))
    values = WebSearchValues(service=SearchService.BRAVE, key="not-a-key")
    set_web_search(ada, estuary, values)
    for name, team in (("web-search", river), ("web-search-on", estuary)):
        links[name] = f"/people/tools/web-search/{team.public_id}/"


def _server(ada: User, team: Team, name: str, address: str) -> ToolServer:
    from django.utils import timezone

    from chat.models import ToolServer
    from chat.tools import servers

    server = servers.add_server(
        ada, team, name=name, address=address, headers={}, signs_in_people=True
    )
    steps = (
        ("connect", "ok", "Connected to Catalog 1.2, which speaks MCP 2026-07-28."),
        ("tools", "ok", "The server has 4 tools."),
    )
    ToolServer.objects.filter(pk=server.pk).update(
        test=[dict(zip(("name", "outcome", "text"), step, strict=True)) for step in steps],
        test_queued_at=None,
        tested_at=timezone.now(),
    )
    server.refresh_from_db()
    return server


def _connect(person: User, server: ToolServer, issuer: str, problem: str = "") -> None:
    from chat.models import OAuthClient, ToolAccount
    from chat.models.tool_account import ClientSource

    client = OAuthClient.objects.create(
        team=server.team,
        issuer=issuer,
        source=ClientSource.ENTERED,
        client_id="tributary-river",
        redirect_uri="https://chat.example.org/settings/connections/callback/",
    )
    account = ToolAccount(
        person=person,
        server=server,
        client=client,
        issuer=issuer,
        resource=server.address,
        token_endpoint=f"{issuer}/token",
        problem=problem,
    )
    account.set_tokens(access="not-a-token", refresh="not-a-token")
    account.save()


def _limit_to_groups(links: dict[str, str], server: ToolServer) -> None:
    from chat.models import Group

    server.is_for_groups = True
    server.save(update_fields=["is_for_groups"])
    server.groups.add(Group.objects.get(name="Divers"))
    links["tool-server-groups"] = f"/people/tool-servers/{server.public_id}/"


def _add_librarians(person: User, server: ToolServer) -> None:
    from chat.participants.group_actions import add_member, create_group

    group = create_group(person, server.team, "Librarians")
    add_member(person, group, person)
    server.groups.add(group)


def _set_rules(ada: User, server: ToolServer, **rules: str) -> None:
    from chat.tools import servers
    from chat.tools.mcp.listing import digest_of

    for name, rule in rules.items():
        tool = server.tools.get(remote_name=name)
        servers.set_rule(ada, tool, rule=rule, digest=digest_of(servers.definition_of(tool)))


def _ask(
    links: dict[str, str],
    name: str,
    words: tuple[str, str],
    calls: Calls,
    arguments: Mapping[str, Any],
) -> None:
    """A conversation of Alice whose answer has asked for these calls."""
    from django.utils import timezone

    from chat.models import Conversation, Question, Run, Team, Upstream, User, Visibility
    from tests.support import tool_calls
    from tests.support.rooms import Room

    river = Team.objects.get(name="River")
    alice, bob = (User.objects.get(name=name) for name in ("Alice", "Bob"))
    title, text = words
    conversation = Conversation.objects.create(
        team=river, owner=alice, title=title, visibility=Visibility.TEAM
    )
    conversation.tools.add(*(tool for _, tool, _ in calls))
    run = Room(conversation, Upstream.objects.order_by("pk").first()).ask(text)
    offered = [{"name": tool.name, "description": "", "schema": {}} for _, tool, _ in calls]
    Run.objects.filter(pk=run.pk).update(tools=offered)
    run.refresh_from_db()
    asked = [tool_calls.item(tool.name, **arguments) for _, tool, _ in calls]
    for question, (status, tool, values) in zip(
        tool_calls.end_waiting(run, *asked), calls, strict=True
    ):
        tool_calls.put_call(question, tool, status, **values)
        by_hand = {} if "error" in values else {"answered_by": bob}
        Question.objects.filter(pk=question.pk, status="declined").update(
            **by_hand, answered_at=timezone.now(), answer={"reason": "Not on Tuesday."}
        )
        Question.objects.filter(pk=question.pk, status="answered").update(
            answered_at=timezone.now(), answer={"output": '{"booking": 4711, "room": "Oder"}'}
        )
    links[name] = f"/c/{conversation.public_id}/"
    links[f"{name}-run"] = f"/r/{run.public_id}/details/"
