"""The Share dialog and the pages of groups; and where participants find a conversation, and lose it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client
from django.urls import reverse
from lxml import html

from chat import access
from chat.accounts.actions import tokens
from chat.conversations.list_version import access_part, read_list_version
from chat.conversations.listing import listing_context
from chat.exports import many
from chat.models import (
    Conversation,
    ConversationRole,
    Group,
    JobScope,
    Membership,
    Message,
    Participant,
    Project,
    ProjectAccess,
    ProjectMember,
    Role,
    SearchKind,
    Team,
    TeamRole,
    Tool,
    User,
    Visibility,
)
from chat.participants import actions
from chat.participants import group_actions as groups
from chat.projects import actions as projects
from chat.search.find import find
from chat.search.sources import index
from chat.search.tokens import parse
from tests.conftest import MakeUser
from tests.support.files import store_file
from tests.support.rooms import HTMX, text_of

SignedIn = Callable[[User], Client]


@pytest.fixture
def room(private_conversation: Conversation) -> Conversation:
    Message.objects.create(
        conversation=private_conversation,
        role=Role.USER,
        text="Where are the piers?",
        author=private_conversation.owner,
    )
    return private_conversation


@pytest.fixture
def guest(team: Team, make_user: MakeUser) -> User:
    guest = make_user("Guest")
    Membership.objects.create(team=team, user=guest, role=TeamRole.GUEST)
    return guest


@pytest.fixture
def divers(team: Team, alice: User, bob: User) -> Group:
    group = groups.create_group(alice, team, "Divers")
    groups.add_member(alice, group, bob)
    return group


def dialog(client: Client, room: Conversation, **params: str) -> html.HtmlElement:
    response = client.get(
        reverse("conversation_people", args=[room.public_id]), params, headers=HTMX
    )
    assert response.status_code == 200
    return html.fragment_fromstring(response.content.decode(), create_parent=True)


def ways(element: html.HtmlElement) -> dict[str, str]:
    """What each person's access comes through."""
    rows = element.xpath(".//ul[@id='readers']/li")
    return {text_of(row.find_class("truncate")[0]): text_of(row.find(".//small")) for row in rows}


def test_dialog_says_through_what_everybody_has_access(
    room: Conversation,
    alice: User,
    bob: User,
    viewer: User,
    guest: User,
    divers: Group,
    team: Team,
    signed_in: SignedIn,
) -> None:
    project = Project.objects.create(team=team, name="Bridge", access=ProjectAccess.MEMBERS)
    for person, role in ((alice, "manager"), (viewer, "reader")):
        ProjectMember.objects.create(project=project, user=person, role=role)
    projects.move_conversation(alice, room, project)
    actions.add_participant(alice, room, divers, "writer")
    actions.add_participant(alice, room, guest, "reader")
    actions.add_participant(alice, room, bob, "manager")

    shown = dialog(signed_in(alice), room)

    assert ways(shown) == {
        "Alice (you)": "Owner · Project Bridge",
        "Bob": "Participant · Group Divers",
        "Guest": "Participant · Guest",
        "Vera": "Project Bridge",
    }
    assert "including reasoning and tool results" in text_of(shown)
    # Bob takes part, and doesn't know the project; a guest sees nothing of the team.
    assert "Bridge" not in text_of(dialog(signed_in(bob), room))
    assert ways(dialog(signed_in(guest), room)) == {
        "Alice": "Owner",
        "Bob": "Participant",
        "Guest (you)": "Participant · Guest",
    }
    assert "Divers" not in text_of(dialog(signed_in(guest), room))


def test_team_is_a_way(conversation: Conversation, bob: User, signed_in: SignedIn) -> None:
    shown = ways(dialog(signed_in(bob), conversation))

    assert shown == {"Alice": "Owner · Team", "Bob (you)": "Team", "Vera": "Team"}


def test_search_finds_people_and_groups_that_may_be_added(
    room: Conversation, alice: User, bob: User, guest: User, divers: Group, signed_in: SignedIn
) -> None:
    actions.add_participant(alice, room, bob, "reader")
    client = signed_in(alice)
    address = reverse("participant_search", args=[room.public_id])

    def names(words: str) -> list[str]:
        found = html.fragment_fromstring(
            client.get(address, {"q": words}).content.decode(), create_parent=True
        )
        return [text_of(each) for each in found.xpath(".//span[@class='truncate']")]

    assert names("") == []
    assert names("e") == ["Divers", "Guest", "Vera"]
    assert names("DIV") == ["Divers"]
    assert names("guest@") == ["Guest"]
    assert names("nobody") == []


def test_dialog_adds_changes_and_removes(
    room: Conversation, alice: User, bob: User, signed_in: SignedIn
) -> None:
    client = signed_in(alice)

    def post(route: str, *more: object, **data: str) -> None:
        address = reverse(route, args=[room.public_id, *more])
        assert client.post(address, data, headers=HTMX).status_code == 200

    post("participant_add", who=f"person:{bob.public_id}", role="reader")
    participant = Participant.objects.get()
    post("participant", participant.public_id, role="writer")
    participant.refresh_from_db()
    assert participant.role == ConversationRole.WRITER
    post("participant", participant.public_id, remove="1")
    assert not Participant.objects.exists()
    post("conversation_visibility", visibility="team_read")

    room.refresh_from_db()
    assert (room.visibility, room.shared_role) == (Visibility.TEAM, ConversationRole.READER)
    assert not access.may_write(bob, room)


def test_person_who_leaves_is_led_away(
    room: Conversation, alice: User, bob: User, signed_in: SignedIn
) -> None:
    participant = actions.add_participant(alice, room, bob, "reader")
    address = reverse("participant", args=[room.public_id, participant.public_id])

    response = signed_in(bob).post(address, {"remove": "1"}, headers=HTMX)

    assert response["HX-Redirect"] == reverse("home")


# --- where participants find it -----------------------------------------------------------------


def status(client: Client, route: str, *args: object) -> int:
    response = client.get(reverse(route, args=args))
    if response.streaming:
        # To its end, where it closes its file.
        b"".join(response)
    return response.status_code


@pytest.mark.databases
@pytest.mark.parametrize("by", ["person", "guest", "group"])
def test_participants_find_it_everywhere_until_they_are_removed(
    room: Conversation,
    alice: User,
    bob: User,
    guest: User,
    divers: Group,
    signed_in: SignedIn,
    by: str,
) -> None:
    reader = guest if by == "guest" else bob
    index(SearchKind.TITLE, room)
    file = store_file(conversation=room, body=b"x")
    client = signed_in(reader)
    bystander = read_list_version(alice.pk)

    def places() -> dict[str, bool]:
        listing = listing_context(reader)
        lines = [line.public_id for day in listing["days"] for line in day.conversations]
        hits = find(reader, parse(room.title)).hits
        return {
            "sidebar": room.public_id in lines,
            "search": room.public_id in [hit.conversation for hit in hits],
            "page": status(client, "conversation", room.public_id) == 200,
            "all": room.public_id.hex in client.get(reverse("conversations")).content.decode(),
            "file": status(client, "file", file.public_id) == 200,
            "export": status(client, "conversation_export", room.public_id, "json") == 200,
        }

    assert not any(places().values())
    before = read_list_version(reader.pk)
    who: User | Group = divers if by == "group" else reader
    participant = actions.add_participant(alice, room, who, "reader")
    granted = read_list_version(reader.pk)
    assert all(places().values())
    assert access_part(granted) != access_part(before)
    actions.remove_participant(alice, participant)

    assert not any(places().values())
    assert access_part(read_list_version(reader.pk)) != access_part(granted)
    assert access_part(read_list_version(alice.pk)) == access_part(bystander)
    # Only what is one's own is exported with all of it.
    assert not many.allowed_to(reader, JobScope.OWN, None).exists()


def test_guest_sees_nothing_of_the_team(
    conversation: Conversation,
    room: Conversation,
    alice: User,
    guest: User,
    divers: Group,
    team: Team,
    signed_in: SignedIn,
) -> None:
    Tool.objects.create(team=team, name="sounding")
    project = projects.create_project(alice, team, name="Bridge")
    actions.add_participant(alice, room, guest, "writer")
    client = signed_in(guest)

    for route in ("home", "people", "teams", "tools", "projects", "conversations", "search"):
        text = client.get(reverse(route)).content.decode()
        for secret in ("Bob", "sounding", "Bridge", "Divers", conversation.public_id.hex):
            assert secret not in text, (route, secret)
    page = client.get(reverse("conversation", args=[room.public_id])).content.decode()
    assert 'name="text"' in page
    assert "sounding" not in page
    assert not access.may_read_project(guest, project)
    assert [person.name for person in access.people_of_teams(guest)] == ["Guest"]


def test_token_of_somebody_who_becomes_a_guest_stops(team: Team, bob: User) -> None:
    tokens.create_token(bob, team, name="nightly", days=7)
    assert access.usable_tokens().exists()

    Membership.objects.filter(user=bob).update(role=TeamRole.GUEST)

    assert not access.usable_tokens().exists()


def test_participant_does_not_learn_the_project_from_search_or_pages(
    room: Conversation, alice: User, bob: User, team: Team, signed_in: SignedIn
) -> None:
    project = projects.create_project(alice, team, name="Bridge", access=ProjectAccess.MEMBERS)
    projects.move_conversation(alice, room, project)
    actions.add_participant(alice, room, bob, "writer")
    index(SearchKind.TITLE, room)
    client = signed_in(bob)

    pages = [
        client.get(reverse("conversation", args=[room.public_id])),
        client.get(reverse("conversations")),
        client.get(reverse("search"), {"q": room.title}),
    ]

    assert all(room.title in page.content.decode() for page in pages)
    assert not any("Bridge" in page.content.decode() for page in pages)
    address = reverse("conversation_export", args=[room.public_id, "json"])
    assert b"Bridge" not in b"".join(client.get(address))


# --- groups -------------------------------------------------------------------------------------


def test_pages_of_groups_create_rename_and_delete(
    team: Team, alice: User, bob: User, signed_in: SignedIn
) -> None:
    client = signed_in(alice)
    client.post(reverse("groups", args=[team.public_id]), {"name": "Divers"})
    group = Group.objects.get()
    member = reverse("group_member", args=[group.public_id])
    client.post(member, {"person": bob.public_id})
    assert "Bob" in client.get(reverse("group", args=[group.public_id])).content.decode()
    client.post(reverse("group", args=[group.public_id]), {"name": "Swimmers"})
    assert "Swimmers" in client.get(reverse("groups", args=[team.public_id])).content.decode()
    client.post(member, {"person": bob.public_id, "remove": "1"})
    assert not group.people.exists()

    client.post(reverse("group_delete", args=[group.public_id]))

    assert not Group.objects.exists()


def test_title_of_an_unmanaged_conversation_is_for_its_readers(
    room: Conversation, alice: User, bob: User, viewer: User, team: Team, signed_in: SignedIn
) -> None:
    Conversation.objects.filter(pk=room.pk).update(title="Secret piers")
    actions.add_participant(alice, room, viewer, "reader")
    Membership.objects.filter(user=bob).update(role=TeamRole.ADMIN)
    Membership.objects.filter(user=alice).delete()
    client, address = signed_in(bob), reverse("groups", args=[team.public_id])

    page = client.get(address).content.decode()
    client.post(reverse("conversation_take_over", args=[room.public_id]))

    assert "Conversation of Alice" in page
    assert "Secret piers" not in page
    assert access.may_manage(bob, room)
    assert "Conversation of Alice" not in client.get(address).content.decode()
