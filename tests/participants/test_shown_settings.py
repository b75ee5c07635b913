"""Readers don't see the writers' settings: every place that shows them, for everybody who reads."""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Mapping

import pytest
from django.test import Client
from django.urls import reverse

from chat import access, events
from chat.administration.transcript import read_page, turns_of
from chat.dialects.lmstudio.client_events import ClientEvents
from chat.exports.many import write_to
from chat.forks.actions import fork
from chat.models import (
    Conversation,
    Membership,
    Participant,
    Run,
    RunSegment,
    Team,
    TeamRole,
    Upstream,
    User,
)
from chat.participants.actions import set_settings_shown
from chat.public_api.log_stream import encode_entries
from chat.run_details.log_pages import entries_behind
from tests.conftest import MakeUser
from tests.support.rooms import HTMX, Room, end_run_with, message_log

SECRET = "Never say beaver."
PARAMETER = "0.81257"
TOOL = "find_lodges"
SETTINGS = (SECRET, PARAMETER, TOOL)
Look = Callable[[User, Client, Run], str]


@pytest.fixture
def guest(team: Team, make_user: MakeUser) -> User:
    guest = make_user("Guest")
    Membership.objects.create(team=team, user=guest, role=TeamRole.GUEST)
    return guest


@pytest.fixture
def people(
    private_conversation: Conversation,
    make_user: MakeUser,
    team: Team,
    alice: User,
    bob: User,
    viewer: User,
    guest: User,
) -> Mapping[str, User]:
    """Alice began it. Bob reads, the others take part with the role of their name; the viewer of the team
    and the guest are writers here."""
    roles = {"reader": bob, "viewer": viewer, "guest": guest}
    for name in ("writer", "manager", "reading guest"):
        roles[name] = make_user(name)
        role = TeamRole.GUEST if "guest" in name else TeamRole.MEMBER
        Membership.objects.create(team=team, user=roles[name], role=role)
    given = {"viewer": "writer", "guest": "writer", "reading guest": "reader"}
    for name, person in roles.items():
        Participant.objects.create(
            conversation=private_conversation, person=person, role=given.get(name, name)
        )
    return {"owner": alice, **roles}


@pytest.fixture
def run(private_conversation: Conversation, upstream: Upstream) -> Run:
    """Asked for with settings, which its server repeats in every way."""
    room = Room(private_conversation, upstream)
    run = room.ask("Where do they live?")
    tools = [{"name": TOOL, "description": SECRET, "schema": {}}]
    settings = {"system_prompt": SECRET, "parameters": {"temperature": float(PARAMETER)}}
    Run.objects.filter(pk=run.pk).update(**settings, tools=tools, notes=[SECRET])
    Conversation.objects.filter(pk=private_conversation.pk).update(**settings)
    echo = {"instructions": SECRET, "tools": tools, "temperature": float(PARAMETER)}
    log = message_log("In rivers.")
    log.insert(1, events.VendorRaw(dialect="lmstudio", event="echo", data=echo))
    log.insert(2, events.VendorRaw(dialect="lmstudio", text=f"{SECRET} {TOOL} {PARAMETER}"))
    log.insert(3, events.MetaUpdate(values={"debug": echo, "upstream_result": echo}))
    end_run_with(run, log)
    frame = f"event: response.created\ndata: {json.dumps({'response': echo})}\n\n"
    RunSegment.objects.filter(run=run, first_seq=1).update(raw=frame.encode())
    run.refresh_from_db()
    return run


def page(route: str, query: str = "", headers: Mapping[str, str] | None = None) -> Look:
    def look(user: User, client: Client, run: Run) -> str:
        thing = run.conversation if route.startswith("conversation") else run
        response = client.get(f"{reverse(route, args=[thing.public_id])}{query}", headers=headers)
        assert response.status_code == 200, response
        return b"".join(response).decode()

    return look


def parameters(user: User, client: Client, run: Run) -> str:
    query = {"server": run.upstream.public_id.hex, "conversation": run.conversation.public_id.hex}
    return client.get(reverse("conversation_parameters"), query).content.decode()


def event(user: User, client: Client, run: Run) -> str:
    addresses = (reverse("run_event", args=[run.public_id, seq]) for seq in range(1, 5))
    return "".join(client.get(address).content.decode() for address in addresses)


def download(route: str, form: str) -> Look:
    def look(user: User, client: Client, run: Run) -> str:
        thing = run if route == "run_export" else run.conversation
        response = client.get(reverse(route, args=[thing.public_id, form]))
        return b"".join(response).decode() if response.status_code == 200 else ""

    return look


def part_of_zip(user: User, client: Client, run: Run) -> str:
    file = io.BytesIO()
    write_to(file, user, run.conversation, "json")
    return file.getvalue().decode()


def stream(user: User, client: Client, run: Run) -> str:
    """What the API streams: the server asks for the right once, when it begins."""
    shown = access.get_run(user, run.public_id)
    sees = access.may_see_settings(user, shown.conversation)
    return encode_entries(
        list(entries_behind(run.pk)), run.public_id, ClientEvents(), with_settings=sees
    ).decode()


def search(user: User, client: Client, run: Run) -> str:
    texts = [client.get(reverse("search"), {"q": word}) for word in ("beaver", "find", "rivers")]
    assert "<mark" in texts[2].content.decode()
    return "".join(each.content.decode() for each in texts)


def copy(user: User, client: Client, run: Run) -> str:
    """A fork, with all that is stored of it."""
    if not access.get_conversation(user, run.conversation.public_id).context.may_fork:
        return ""
    made = fork(user, run.conversation, idempotency_key=uuid.uuid4())
    copied = Run.objects.get(conversation=made)
    log = b"".join(entry.body for entry in entries_behind(copied.pk))
    return f"{vars(made)} {vars(copied)} {log!r}"


# Each place, and which of the settings it shows to those who may see them.
PLACES: Mapping[str, tuple[Look, tuple[str, ...]]] = {
    "conversation page": (page("conversation"), (SECRET, PARAMETER)),
    "changes of the page": (page("conversation_changes", headers=HTMX), (SECRET, PARAMETER)),
    "parameters of the composer": (parameters, (PARAMETER,)),
    "run details, timeline": (page("run_details"), (SECRET,)),
    "run details, request": (page("run_details", "?tab=request"), SETTINGS),
    "run details, recording": (page("run_details", "?tab=recording"), SETTINGS),
    "run details, events": (page("run_details", "?tab=events&at=2"), SETTINGS),
    "run details, usage": (page("run_details", "?tab=usage"), (SECRET,)),
    "list of events": (page("run_log"), SETTINGS),
    "one event": (event, SETTINGS),
    "replay": (page("run_replay"), ()),
    "recording of a run": (download("run_export", "raw"), SETTINGS),
    "events of a run": (download("run_export", "events"), SETTINGS),
    "export as JSON": (download("conversation_export", "json"), SETTINGS),
    "export as Markdown": (download("conversation_export", "markdown"), (SECRET,)),
    "export of all branches": (download("conversation_export", "branches"), (SECRET,)),
    "export as HTML": (download("conversation_export", "html"), (SECRET,)),
    "printed page": (page("conversation_print"), (SECRET,)),
    "export of many": (part_of_zip, SETTINGS),
    "events of the API": (stream, (SECRET, TOOL, PARAMETER)),
    "search": (search, ()),
    "fork": (copy, SETTINGS),
}
# Who sees them, unless the room shows them to readers. A viewer of the team writes nowhere.
SEES = {
    "owner": True,
    "manager": True,
    "writer": True,
    "guest": True,
    "reader": False,
    "viewer": False,
    "reading guest": False,
}
# Guests and viewers begin no conversations, and only who writes has a composer.
LACKS = {
    "fork": ("guest", "viewer", "reading guest"),
    "conversation page": ("reader", "viewer", "reading guest"),
    "changes of the page": ("reader", "viewer", "reading guest"),
}


@pytest.mark.parametrize(
    ("name", "are_shown"),
    [
        *((name, False) for name in SEES),
        *((name, True) for name, sees in SEES.items() if not sees),
    ],
)
def test_places_show_settings_to_whom_they_are_for(
    run: Run,
    people: Mapping[str, User],
    signed_in: Callable[[User], Client],
    subtests: pytest.Subtests,
    name: str,
    are_shown: bool,
) -> None:
    if are_shown:
        set_settings_shown(people["owner"], run.conversation, are_shown=True)
    person = people[name]
    client = signed_in(person)
    sees = SEES[name] or are_shown
    for place, (look, shown) in PLACES.items():
        with subtests.test(msg=place):
            text = look(person, client, run)

            found = {each for each in SETTINGS if each in text}
            has_none = name in LACKS.get(place, ())
            assert found == (set(shown) if sees and not has_none else set())


def test_administrators_see_everything_in_transcripts_and_exports_of_all(
    run: Run, administrator: User, bob: User
) -> None:
    file = io.BytesIO()
    write_to(file, administrator, run.conversation, "json", is_complete=True)

    assert all(each in file.getvalue().decode() for each in SETTINGS)
    (_, answer) = turns_of(read_page(run.conversation, 1))
    assert SECRET in answer.cards[0].result
