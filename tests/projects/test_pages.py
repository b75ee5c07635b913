"""The pages of projects over HTTP: what they show to whom, their forms, and moves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.http import HttpResponse
from django.test import Client
from django.urls import reverse
from lxml import html

from chat.conversations.project_lines import MOST_PROJECTS, PROJECT_LINES
from chat.models import (
    Conversation,
    Membership,
    Project,
    ProjectAccess,
    ProjectMember,
    ProjectRole,
    Team,
    TeamRole,
    Upstream,
    User,
    Visibility,
)
from chat.organization.actions import pin
from chat.projects.actions import create_project, delete_project, move_conversation, set_member
from tests.conftest import MakeUser
from tests.support.rooms import HTMX, get_page, queries_of, text_of, url_of

pytestmark = pytest.mark.databases(slow=True)

NOTHING_CHOSEN = "none"


@pytest.fixture
def gauges(alice: User, team: Team) -> Project:
    """Alice's, for everyone on the team."""
    return create_project(alice, team, name="Gauges", color="teal", description="At the mill.")


@pytest.fixture
def board(alice: User, bob: User, team: Team) -> Project:
    """Of selected people: Alice manages it, Bob reads it."""
    made = create_project(alice, team, name="Board", access=ProjectAccess.MEMBERS)
    set_member(alice, made, bob, ProjectRole.READER)
    return made


def begin(owner: User, team: Team, title: str, project: Project | None = None) -> Conversation:
    room = Conversation.objects.create(team=team, owner=owner, title=title)
    if project is not None:
        move_conversation(owner, room, project)
    return room


def address(route: str, project: Project, *more: object) -> str:
    return reverse(route, args=[project.public_id, *more])


def sidebar(client: Client) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """The titles of what is pinned, of each project, and of the rest."""
    body = client.get(reverse("conversation_list")).content.decode()
    page = html.fragment_fromstring(body, create_parent=True)
    projects = {
        text_of(fold.find("summary")): fold.xpath(".//a[@data-room]/@title")
        for fold in page.xpath("//details[@data-project]")
    }
    pinned = page.xpath("//ul[@data-pinned]//a[@data-room]/@title")
    return pinned, projects, page.xpath("//ul[@data-recent]//a[@data-room]/@title")


def move(client: Client, *rooms: Conversation, **values: object) -> HttpResponse:
    chosen = [room.public_id.hex for room in rooms]
    headers = values.pop("headers", None)
    data = {"conversation": chosen, **values}
    return client.post(reverse("projects_move"), data, headers=headers)


# --- the sidebar --------------------------------------------------------------------------------


def test_conversations_stand_under_their_project_and_nowhere_else(
    as_bob: Client, alice: User, bob: User, team: Team, gauges: Project, board: Project
) -> None:
    begin(bob, team, "Loose")
    begin(alice, team, "Offers", gauges)
    begin(bob, team, "Cables", gauges)
    pin(bob, begin(alice, team, "Minutes", board))

    assert sidebar(as_bob) == (
        ["Minutes"],
        {"Board": [], "Gauges": ["Cables", "Offers"]},
        ["Loose"],
    )


def test_sidebar_has_the_newest_of_a_project_in_as_many_queries_as_for_one(
    as_alice: Client, alice: User, team: Team, gauges: Project
) -> None:
    begin(alice, team, "0", gauges)
    before = queries_of(as_alice, reverse("conversation_list"))
    other = create_project(alice, team, name="Second")
    for number in range(1, PROJECT_LINES + 3):
        begin(alice, team, str(number), gauges)
        begin(alice, team, f"second {number}", other)

    _, projects, recent = sidebar(as_alice)

    newest = [str(number) for number in range(PROJECT_LINES + 2, 2, -1)]
    assert projects["Gauges"] == newest
    oldest = Conversation.objects.get(title="0")
    shown = f"{reverse('conversation_list')}?current={oldest.public_id}"
    page = html.fragment_fromstring(as_alice.get(shown).content.decode(), create_parent=True)
    assert page.xpath("//details[@open]//a[@data-room]/@title") == [*newest, "0"]
    assert projects["Second"] == [f"second {number}" for number in newest]
    assert recent == []
    assert queries_of(as_alice, reverse("conversation_list")) == before


def test_more_projects_than_the_sidebar_shows_are_on_their_page(
    as_alice: Client, alice: User, team: Team
) -> None:
    def in_sidebar() -> tuple[int, bool]:
        body = as_alice.get(reverse("conversation_list")).content.decode()
        return body.count("<details"), "Show all projects" in body

    for number in range(MOST_PROJECTS):
        Project.objects.create(team=team, name=f"P{number}")
    assert in_sidebar() == (MOST_PROJECTS, False)
    Project.objects.create(team=team, name="Q")

    assert in_sidebar() == (MOST_PROJECTS, True)
    page = get_page(as_alice, reverse("projects"))
    assert len(page.xpath("//ul[contains(@class, 'project-list')]/li")) == MOST_PROJECTS + 1


def test_own_conversation_of_a_project_that_one_left_is_among_the_recent(
    as_bob: Client, alice: User, bob: User, team: Team, board: Project
) -> None:
    set_member(alice, board, bob, ProjectRole.WRITER)
    room = begin(bob, team, "Mine", board)
    ProjectMember.objects.filter(user=bob).delete()

    assert sidebar(as_bob) == ([], {}, ["Mine"])
    # They know where their conversation is shared, and have no way there any more.
    for url in (url_of("conversation", room), reverse("conversations")):
        body = as_bob.get(url).content.decode()
        assert "Board" in body
        assert address("project", board) not in body


def test_project_is_open_where_one_is_or_as_one_left_it(
    as_alice: Client, alice: User, team: Team, gauges: Project
) -> None:
    room = begin(alice, team, "Offers", gauges)

    def opened(url: str) -> int:
        return len(get_page(as_alice, url).xpath("//details[@data-project and @open]"))

    shown = url_of("conversation", room)
    assert (opened(shown), opened(reverse("home"))) == (1, 0)
    as_alice.cookies["projects"] = f"{gauges.public_id.hex[:8]}-.{'x' * 3000}"
    assert (opened(shown), opened(reverse("home"))) == (0, 0)
    as_alice.cookies["projects"] = f"{gauges.public_id.hex[:8]}+"
    assert (opened(shown), opened(reverse("home"))) == (1, 1)


# --- pages --------------------------------------------------------------------------------------


def test_pages_by_person(
    signed_in: Callable[[User], Client],
    make_user: MakeUser,
    alice: User,
    bob: User,
    viewer: User,
    charlie: User,
    team: Team,
    gauges: Project,
    board: Project,
    subtests: pytest.Subtests,
) -> None:
    admin = make_user("Fatima")
    Membership.objects.create(team=team, user=admin, role=TeamRole.ADMIN)
    routes = ("project", "project_instructions", "project_members", "project_settings")
    expected = {
        (alice, gauges): (200, 200, 200, 200),
        (bob, gauges): (200, 200, 200, 403),
        (viewer, gauges): (200, 200, 200, 403),
        (charlie, gauges): (404, 404, 404, 404),
        (alice, board): (200, 200, 200, 200),
        (bob, board): (200, 200, 200, 403),
        (viewer, board): (404, 404, 404, 404),
        # Sees who reads it, and may change that, but reads nothing of it.
        (admin, board): (302, 404, 200, 404),
    }
    for (person, project), statuses in expected.items():
        client = signed_in(person)
        with subtests.test(person=str(person), project=project.name):
            found = tuple(client.get(address(route, project)).status_code for route in routes)
            assert found == statuses
            listed = project.name in text_of(get_page(client, reverse("projects")).find(".//main"))
            assert listed == (200 in statuses[:2])


def test_project_is_created_changed_and_deleted(
    as_alice: Client, alice: User, team: Team, upstream: Upstream
) -> None:
    values = {"team": team.public_id, "name": "Gauges", "color": "red", "access": "team"}
    assert as_alice.post(reverse("project_new"), {**values, "name": " "}).status_code == 422
    assert as_alice.post(reverse("project_new"), {**values, "color": "pink"}).status_code == 422

    made = as_alice.post(reverse("project_new"), values)

    project = Project.objects.get()
    assert made.url == address("project", project)
    as_alice.post(address("project_instructions", project), {"instructions": "In meters.\r\nOnly."})
    choice = f"{upstream.public_id.hex}:demo/model"
    new_values = {"name": "Levels", "color": "blue", "access": "members", "choice": choice}
    saved = as_alice.post(
        address("project_settings", project), {**new_values, "confirmed": "members"}
    )
    assert saved.status_code == 302
    project.refresh_from_db()
    assert (project.name, project.color, project.access) == ("Levels", "blue", "members")
    assert project.instructions == "In meters.\nOnly."
    assert (project.upstream, project.model) == (upstream, "demo/model")
    room = begin(alice, team, "Offers", project)
    page = text_of(get_page(as_alice, address("project_settings", project)))
    assert "each one becomes private to its owner" in page

    assert as_alice.post(address("project_delete", project)).url == reverse("projects")
    room.refresh_from_db()
    assert (room.project, room.visibility) == (None, Visibility.PRIVATE)
    assert not Project.objects.exists()


def test_viewer_creates_no_project(as_viewer: Client, gauges: Project) -> None:
    assert as_viewer.get(reverse("project_new")).status_code == 403
    page = get_page(as_viewer, address("project", gauges))
    assert not page.xpath("//a[contains(@href, '?project=')]")
    assert not page.xpath(f"//a[@href='{reverse('project_new')}' and not(@role)]")


def test_members_are_added_changed_and_removed(
    as_alice: Client, as_bob: Client, viewer: User, bob: User, charlie: User, board: Project
) -> None:
    members = address("project_members", board)
    roles = lambda: {  # noqa: E731
        each.user.name: each.role for each in board.memberships.select_related("user")
    }

    as_alice.post(members, {"person": viewer.public_id, "role": "reader"})
    assert (
        as_alice.post(members, {"person": charlie.public_id, "role": "reader"}).status_code == 422
    )
    as_alice.post(address("project_member", board, bob.public_id), {"role": "writer"})
    assert roles() == {"Alice": "manager", "Bob": "writer", "Vera": "reader"}

    refused = as_bob.post(address("project_member", board, viewer.public_id), {"remove": "1"})
    assert refused.status_code == 403
    left = as_bob.post(
        address("project_member", board, bob.public_id), {"remove": "1", "confirmed": "1"}
    )
    assert left.url == reverse("projects")
    assert "Bob" not in roles()


# --- moves --------------------------------------------------------------------------------------


def test_move_asks_who_gains_and_who_loses_access_and_then_moves(
    as_alice: Client, make_user: MakeUser, alice: User, team: Team, gauges: Project, board: Project
) -> None:
    for name in ("Dora", "Emma", "Finn", "Gita", "Hana"):
        Membership.objects.create(team=team, user=make_user(name), role=TeamRole.MEMBER)
    room = begin(alice, team, "Offers")

    asked = move(as_alice, room, project=gauges.public_id, headers=HTMX)
    form = html.fragment_fromstring(asked.content.decode())
    assert text_of(form.find_class("move-effect")[0]) == (
        "Get accessBBobDDoraEEmmaFFinnGGitaand 2 more people"
    )
    room.refresh_from_db()
    assert room.project is None

    done = move(as_alice, room, project=gauges.public_id, confirmed="1", headers=HTMX)
    assert "list:stale" in done["HX-Trigger"]
    room.refresh_from_db()
    assert (room.project, room.visibility) == (gauges, Visibility.PROJECT)
    between = move(as_alice, room, project=board.public_id, headers=HTMX).content.decode()
    assert "Get access" not in between
    assert "Lose access" in between


def test_move_that_changes_nobodys_access_does_not_ask(
    as_alice: Client, alice: User, team: Team, board: Project
) -> None:
    ProjectMember.objects.filter(project=board).exclude(user=alice).delete()
    room = begin(alice, team, "Offers")
    url = f"{reverse('projects_move')}?conversation={room.public_id.hex}&project={board.public_id}"

    assert "Nobody gains or loses access" in as_alice.get(url).content.decode()
    room.refresh_from_db()
    assert room.project is None, "a GET changes nothing"
    move(as_alice, room, project=board.public_id)

    room.refresh_from_db()
    assert room.project == board


def test_several_are_moved_out_together(
    as_alice: Client, alice: User, bob: User, team: Team, gauges: Project
) -> None:
    rooms = [begin(alice, team, title, gauges) for title in ("One", "Two")]
    foreign = begin(bob, team, "Bobs", gauges)

    moved = move(as_alice, *rooms, foreign, project=NOTHING_CHOSEN, confirmed="1", back="all")

    assert moved.url == reverse("conversations")
    again = move(as_alice, *rooms, project=NOTHING_CHOSEN, confirmed="1", headers=HTMX)
    assert again.status_code == 422
    assert {room.title for room in gauges.conversations.all()} == {"Bobs"}


def taken_back(response: HttpResponse) -> dict[str, list[str]]:
    """What the offer to undo sends."""
    (form,) = html.fromstring(response.content.decode()).xpath("//*[@data-undo]//form")
    assert form.get("action") == reverse("projects_move_back")
    return {"conversation": form.xpath(".//input[@name='conversation']/@value")}


def test_move_is_taken_back_to_where_each_was(
    as_alice: Client, alice: User, bob: User, team: Team, gauges: Project, board: Project
) -> None:
    places = [
        (None, Visibility.TEAM),
        (None, Visibility.PRIVATE),
        (gauges, Visibility.PROJECT),
        (gauges, Visibility.PRIVATE),
    ]
    rooms = [
        Conversation.objects.create(
            team=team, owner=alice, title=str(n), project=project, visibility=visibility
        )
        for n, (project, visibility) in enumerate(places)
    ]
    asked = {"project": board.public_id, "confirmed": "1"}
    undo = taken_back(move(as_alice, *rooms, **asked, headers=HTMX))
    assert {room.visibility for room in board.conversations.all()} == {Visibility.PROJECT}

    back = as_alice.post(reverse("projects_move_back"), undo, headers=HTMX)

    assert "4 conversations moved back" in back["HX-Trigger"]
    for room, place in zip(rooms, places, strict=True):
        room.refresh_from_db()
        assert (room.project, room.visibility) == place
    # On the pages of lists the offer comes with the next page.
    move(as_alice, *rooms, **asked, back="all")
    assert len(taken_back(as_alice.get(reverse("conversations")))["conversation"]) == 4


def test_move_out_of_what_is_deleted_is_not_taken_back(
    as_alice: Client, as_bob: Client, alice: User, team: Team, gauges: Project, board: Project
) -> None:
    room, other = begin(alice, team, "Offers", gauges), begin(alice, team, "Other", board)
    moved = move(as_alice, room, project=NOTHING_CHOSEN, confirmed="1", headers=HTMX)
    undo = taken_back(moved)
    # The first of two that would go back.
    other_place = f"{other.public_id.hex}.{NOTHING_CHOSEN}.private"
    delete_project(alice, gauges)

    address = reverse("projects_move_back")
    refused = as_alice.post(address, {"conversation": [other_place, *undo["conversation"]]})
    assert "deleted" in as_alice.get(refused.url).content.decode()
    assert as_bob.post(address, undo).status_code == 404
    assert as_alice.post(address, {"conversation": "x.y"}).status_code == 404
    room.refresh_from_db()
    other.refresh_from_db()
    assert (room.project, room.visibility, other.project) == (None, Visibility.PRIVATE, board)


def test_choice_offers_what_one_may_write_in(
    as_bob: Client, alice: User, bob: User, team: Team, gauges: Project, board: Project
) -> None:
    room = begin(bob, team, "Mine")

    def offered() -> list[str]:
        url = f"{reverse('projects_move')}?conversation={room.public_id.hex}"
        form = html.fragment_fromstring(as_bob.get(url, headers=HTMX).content.decode())
        return [text_of(button) for button in form.xpath(".//button[@name='project']")]

    assert offered() == ["Gauges"]
    assert move(as_bob, room, project=board.public_id).status_code == 403
    set_member(alice, board, bob, ProjectRole.WRITER)
    move_conversation(bob, room, gauges)
    assert offered() == ["Board", "No project"]


@pytest.mark.parametrize(
    ("project", "rooms", "status"),
    [("none", "theirs", 403), ("none", "nobodys", 404), ("bad", "mine", 404), ("none", "", 422)],
)
def test_move_of_what_is_not_ones_own(
    as_bob: Client,
    alice: User,
    bob: User,
    team: Team,
    gauges: Project,
    project: str,
    rooms: str,
    status: int,
) -> None:
    known = {
        "theirs": begin(alice, team, "Offers", gauges).public_id.hex,
        "nobodys": "00000000000000000000000000000000",
        "mine": begin(bob, team, "Mine").public_id.hex,
    }
    data = {"conversation": known.get(rooms, ""), "project": project}
    if not rooms:
        del data["conversation"]

    assert as_bob.post(reverse("projects_move"), data, headers=HTMX).status_code == status


# --- elsewhere ----------------------------------------------------------------------------------


def test_heading_names_the_project_and_the_menu_moves(
    as_alice: Client, as_bob: Client, alice: User, team: Team, gauges: Project
) -> None:
    url = url_of("conversation", begin(alice, team, "Offers", gauges))
    mine, theirs = get_page(as_alice, url), get_page(as_bob, url)

    for page in (mine, theirs):
        (link,) = page.xpath("//*[@id='room-head']//a[@class='room-project']")
        assert (text_of(link), link.get("href")) == ("Gauges", address("project", gauges))
    assert mine.get_element_by_id("to-people").get("aria-label") == "Shared with Gauges"
    assert mine.xpath("//*[@id='room-head']//a[@data-move]")
    assert not theirs.xpath("//*[@id='room-head']//a[@data-move]")


def test_palette_finds_projects(as_bob: Client, as_viewer: Client, board: Project) -> None:
    url = f"{reverse('search_palette')}?q=boa"

    assert address("project", board) in as_bob.get(url).content.decode()
    assert "Board" not in as_viewer.get(url).content.decode()


# --- changes of who reads a project -------------------------------------------------------------


def asked(response: HttpResponse) -> list[str]:
    """What the dialog says, without its buttons: its title, then one text for each box."""
    page = html.fromstring(response.content.decode())
    (dialog,) = page.xpath("//dialog[@id='access-question']")
    return [text_of(each) for each in (dialog.find(".//h2"), *dialog.find_class("move-effect"))]


def test_other_access_of_a_project_is_asked_about(
    as_alice: Client, alice: User, bob: User, team: Team, gauges: Project
) -> None:
    begin(alice, team, "Offers", gauges)
    settings = address("project_settings", gauges)
    values = {"name": "Gauges", "color": "teal", "access": "members"}

    question = as_alice.post(settings, values)
    assert asked(question) == [
        "Change who can read Gauges?",
        "Lose accessBBobVVera",
        "To 1 conversationOffers",
    ]
    # Not what was asked about.
    as_alice.post(settings, {**values, "confirmed": "team"})
    gauges.refresh_from_db()
    assert gauges.access == ProjectAccess.TEAM

    as_alice.post(settings, {**values, "confirmed": "members"})
    gauges.refresh_from_db()
    assert gauges.access == ProjectAccess.MEMBERS
    back = as_alice.post(settings, {**values, "access": "team"})
    assert asked(back)[1] == "Get accessBBobVVera"


def test_added_and_removed_members_are_asked_about(
    as_alice: Client, as_bob: Client, alice: User, bob: User, viewer: User, board: Project
) -> None:
    rooms = [begin(alice, board.team, f"Offer {n}", board) for n in range(6)]
    Conversation.objects.filter(pk=rooms[5].pk).update(visibility=Visibility.PRIVATE)
    members, vera = address("project_members", board), str(viewer.public_id)
    adding = {"person": vera, "role": "reader"}
    removing = address("project_member", board, vera)

    assert asked(as_alice.post(members, adding)) == [
        "Add Vera to Board?",
        "Get accessVVera",
        "To 5 conversationsOffer 4Offer 3Offer 2Offer 1Offer 0",
    ]
    assert not board.memberships.filter(user=viewer).exists()
    as_alice.post(members, {**adding, "confirmed": "1"})
    assert asked(as_alice.post(removing, {"remove": "1"}))[:2] == [
        "Remove Vera from Board?",
        "Lose accessVVera",
    ]
    as_alice.post(removing, {"remove": "1", "confirmed": "1"})
    assert not board.memberships.filter(user=viewer).exists()

    mine = address("project_member", board, bob.public_id)
    assert asked(as_bob.post(mine, {"remove": "1"}))[0] == "Leave Board?"


def test_who_only_manages_members_is_not_told_what_is_in_the_project(
    as_alice: Client, alice: User, bob: User, viewer: User, team: Team
) -> None:
    board = create_project(bob, team, name="Bobs", access=ProjectAccess.MEMBERS)
    begin(bob, team, "Secret plan", board)

    question = as_alice.post(
        address("project_members", board), {"person": str(viewer.public_id), "role": "reader"}
    )

    assert asked(question) == ["Add Vera to Bobs?", "Get accessVVera"]
    assert "Secret plan" not in question.content.decode()
