"""Pins, archive, trash and temporary conversations: what the actions do, and who sees it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from lxml import html

from chat.conversations.actions.conversation import delete
from chat.conversations.actions.messages import ModelChoice, start_conversation
from chat.conversations.list_version import read_list_version
from chat.core.errors import ActionRefused
from chat.models import (
    AuditEvent,
    Conversation,
    Message,
    Pin,
    Run,
    SearchRow,
    StoredFile,
    Team,
    Upstream,
    User,
    Visibility,
)
from chat.organization import actions
from chat.organization.purge import end_expired, erase_one
from chat.projects import actions as projects
from chat.search.find import find
from chat.search.tokens import parse
from tests.support.files import store_file
from tests.support.rooms import (
    HTMX,
    Room,
    change,
    end_run,
    filled_form,
    get_page,
    queries_of,
    url_of,
    without_token,
)

pytestmark = pytest.mark.databases(slow=True)


@pytest.fixture
def rooms(alice: User, team: Team) -> list[Conversation]:
    """Alice's, shared, the newest last."""
    return [
        Conversation.objects.create(team=team, owner=alice, title=title, visibility=Visibility.TEAM)
        for title in ("A", "B", "C", "D")
    ]


def sidebar(client: Client) -> tuple[list[str], list[str]]:
    """The titles of what is pinned, and of the rest."""
    body = client.get(reverse("conversation_list")).content.decode()
    page = html.fragment_fromstring(body, create_parent=True)
    pinned = page.xpath("//ul[@data-pinned]//a[@data-room]/@title")
    return pinned, page.xpath("//ul[not(@data-pinned)]//a[@data-room]/@title")


def sidebar_times(client: Client) -> list[tuple[str, str]]:
    """The titles in their order, each with the time by which a browser marks it as new."""
    body = client.get(reverse("conversation_list")).content.decode()
    page = html.fragment_fromstring(body, create_parent=True)
    return [(link.get("title"), link.get("data-updated")) for link in page.xpath("//a[@data-room]")]


def later(**delta: float) -> None:
    """As if everything in the trash, and every end, were so long ago."""
    for row in Conversation.objects.all():
        if row.deleted_at:
            row.deleted_at -= timedelta(**delta)
        if row.expires_at:
            row.expires_at -= timedelta(**delta)
        row.save()


def purge() -> None:
    while erase_one():
        pass
    end_expired()


# --- pins ---------------------------------------------------------------------------------------


def test_pins_are_each_persons_own_and_in_their_order(
    as_alice: Client, as_bob: Client, rooms: list[Conversation]
) -> None:
    a, b, c, _ = rooms
    for room in (c, a, b):
        change(as_bob, "pin", room)

    assert sidebar(as_bob) == (["C", "A", "B"], ["D"])
    assert sidebar(as_alice) == ([], ["D", "C", "B", "A"])

    change(as_bob, "pin", b, place=0)
    change(as_bob, "unpin", a)
    assert sidebar(as_bob) == (["B", "C"], ["D", "A"])


@pytest.mark.databases
@pytest.mark.parametrize(
    ("title", "place", "expected"),
    [("A", 0, "ABC"), ("A", 1, "BAC"), ("A", 2, "BCA"), ("C", 0, "CAB"), ("B", 99, "ACB")],
)
def test_pin_moves_to_a_place_among_those_that_are_shown(
    rooms: list[Conversation], alice: User, title: str, place: int, expected: str
) -> None:
    for room in rooms:
        actions.pin(alice, room)
    # It has a place, which nobody sees.
    actions.archive(alice, rooms[3])
    (moved,) = (room for room in rooms if room.title == title)

    actions.pin(alice, moved, place)

    assert "".join(pin.conversation.title for pin in actions.shown_pins(alice)) == expected


def test_pin_of_what_is_lost_is_not_shown(
    as_bob: Client, bob: User, alice: User, rooms: list[Conversation]
) -> None:
    change(as_bob, "pin", rooms[0])

    Conversation.objects.update(visibility=Visibility.PRIVATE)

    assert sidebar(as_bob) == ([], [])
    assert actions.shown_pins(bob) == []


def test_pins_have_a_limit(
    alice: User, rooms: list[Conversation], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "MOST_PINS", 2)
    for room in rooms[:2]:
        actions.pin(alice, room)

    with pytest.raises(ActionRefused, match="at most 2"):
        actions.pin(alice, rooms[2])

    assert Pin.objects.count() == 2


# --- archive ------------------------------------------------------------------------------------


def test_archived_conversation_leaves_every_sidebar(
    as_alice: Client, as_bob: Client, rooms: list[Conversation]
) -> None:
    change(as_bob, "pin", rooms[0])

    change(as_alice, "archive", rooms[0])

    assert sidebar(as_bob) == ([], ["D", "C", "B"])
    assert "A" in get_page(as_bob, reverse("conversations_archived")).text_content()
    assert as_bob.get(url_of("conversation", rooms[0])).status_code == 200
    change(as_alice, "unarchive", rooms[0])
    assert sidebar(as_bob) == (["A"], ["D", "C", "B"])


def test_message_takes_a_conversation_out_of_the_archive(
    as_alice: Client, room: Room, alice: User
) -> None:
    room.turn("First")
    actions.archive(alice, room.conversation)

    room.ask("Second", below=Message.objects.last())

    assert sidebar(as_alice) == ([], [room.conversation.title])


def test_end_of_an_answer_leaves_the_archive_as_it_is(
    as_alice: Client, room: Room, alice: User
) -> None:
    run = room.ask("First")
    actions.archive(alice, room.conversation)

    end_run(run)

    assert sidebar(as_alice) == ([], [])


# --- places in the sidebar -----------------------------------------------------------------------


def move_in_and_out(user: User, room: Conversation) -> None:
    project = projects.create_project(user, room.team, name="Bridge")
    projects.move_conversation(user, room, project)
    projects.move_conversation(user, room, None, is_shared=True)


def archive_and_back(user: User, room: Conversation) -> None:
    actions.archive(user, room)
    actions.unarchive(user, room)


def delete_and_restore(user: User, room: Conversation) -> None:
    delete(user, room)
    actions.restore(user, room)


def pin_and_unpin(user: User, room: Conversation) -> None:
    actions.pin(user, room)
    actions.unpin(user, room)


@pytest.mark.parametrize(
    "rearrange", [archive_and_back, delete_and_restore, move_in_and_out, pin_and_unpin]
)
@pytest.mark.parametrize("visibility", [Visibility.TEAM, Visibility.PRIVATE])
def test_old_conversation_is_no_news_where_it_is_rearranged(
    rearrange: Callable[[User, Conversation], None],
    visibility: Visibility,
    as_alice: Client,
    alice: User,
    rooms: list[Conversation],
) -> None:
    old = rooms[0]
    Conversation.objects.filter(pk=old.pk).update(visibility=visibility)
    old.refresh_from_db()
    before, version = sidebar_times(as_alice), read_list_version(alice.pk)

    rearrange(alice, old)

    assert sidebar_times(as_alice) == before
    # So other pages fetch the list.
    assert read_list_version(alice.pk) != version


# --- trash --------------------------------------------------------------------------------------


def test_deleted_conversation_is_in_its_owners_trash_alone(
    as_alice: Client, as_bob: Client, rooms: list[Conversation]
) -> None:
    change(as_alice, "delete", rooms[0])

    trash = reverse("conversations_trash")
    assert get_page(as_alice, trash).xpath("//h2/label/text()") == ["A"]
    assert get_page(as_bob, trash).xpath("//h2/label/text()") == []
    change(as_alice, "restore", rooms[0])
    assert sidebar(as_bob)[1] == ["D", "C", "B", "A"]
    assert list(AuditEvent.objects.values_list("verb", flat=True).order_by("pk")) == [
        "conversation.delete",
        "conversation.restore",
    ]


@pytest.mark.databases
def test_several_are_changed_at_once_and_those_that_are_gone_are_left_out(
    as_alice: Client, as_bob: Client, bob: User, rooms: list[Conversation], team: Team
) -> None:
    foreign = Conversation.objects.create(
        team=team, owner=bob, title="Bob's", visibility=Visibility.TEAM
    )
    delete(rooms[0].owner, rooms[0])

    response = change(as_alice, "archive", *rooms, foreign, back="all")

    assert response.headers["Location"] == reverse("conversations")
    page = get_page(as_alice, reverse("conversations"))
    assert "3 conversations archived" in page.text_content()
    assert sidebar(as_bob) == ([], ["Bob's"])
    # The page offers to take it back.
    (form,) = page.xpath("//div[@data-undo]/form")
    ids = form.xpath("./input[@name='conversation']/@value")
    as_alice.post(form.get("action"), {"conversation": ids})
    assert sorted(sidebar(as_bob)[1]) == ["B", "Bob's", "C", "D"]


def test_nothing_selected_is_said(as_alice: Client, rooms: list[Conversation]) -> None:
    change(as_alice, "archive", back="all")

    assert (
        "Select conversations first" in get_page(as_alice, reverse("conversations")).text_content()
    )


@pytest.mark.databases
def test_what_is_deleted_for_ever_is_out_of_reach_at_once_and_then_erased(
    as_alice: Client, alice: User, room: Room
) -> None:
    room.turn("Willows")
    store_file(conversation=room.conversation, body=b"x")
    change(as_alice, "delete", room.conversation)

    change(as_alice, "erase", room.conversation)

    assert get_page(as_alice, reverse("conversations_trash")).xpath("//h2/label") == []
    assert change(as_alice, "restore", room.conversation).status_code == 404
    purge()
    for model in (Conversation, Message, Run, StoredFile, SearchRow):
        assert not model.objects.exists(), model
    assert list(AuditEvent.objects.values_list("verb", flat=True).order_by("pk")) == [
        "conversation.delete",
        "conversation.erase",
    ]


def test_trash_is_emptied_of_ones_own(
    as_alice: Client, bob: User, team: Team, rooms: list[Conversation]
) -> None:
    foreign = Conversation.objects.create(team=team, owner=bob, title="Bob's")
    for room in (rooms[0], rooms[1], foreign):
        delete(room.owner, room)

    as_alice.post(reverse("trash_empty"))
    purge()

    assert sorted(Conversation.objects.values_list("title", flat=True)) == ["Bob's", "C", "D"]


@pytest.mark.databases
def test_trash_is_purged_after_its_days(alice: User, rooms: list[Conversation]) -> None:
    delete(alice, rooms[0])
    later(days=29)
    delete(alice, rooms[1])
    purge()
    assert Conversation.objects.count() == 4

    later(days=1)
    purge()

    assert sorted(Conversation.objects.values_list("title", flat=True)) == ["B", "C", "D"]
    assert AuditEvent.objects.order_by("pk").last().verb == "conversation.purge"


def test_restored_in_the_last_moment_is_not_erased(alice: User, rooms: list[Conversation]) -> None:
    delete(alice, rooms[0])
    later(days=31)

    actions.restore(alice, rooms[0])
    purge()

    assert Conversation.objects.count() == 4


def test_nothing_is_erased_under_an_answer(alice: User, room: Room) -> None:
    run = room.ask("First")
    delete(alice, room.conversation)
    actions.erase(alice, room.conversation)
    Run.objects.filter(pk=run.pk).update(status="running")

    purge()
    assert Conversation.objects.exists()

    Run.objects.filter(pk=run.pk).update(status="stopped")
    purge()
    assert not Conversation.objects.exists()


def test_deleting_twice_is_one_deletion(alice: User, rooms: list[Conversation]) -> None:
    for _ in range(2):
        delete(alice, rooms[0])

    assert AuditEvent.objects.count() == 1


# --- temporary conversations --------------------------------------------------------------------


@pytest.mark.databases
def test_temporary_conversation_ends_at_its_time(
    as_alice: Client, as_bob: Client, alice: User, team: Team, upstream: Upstream
) -> None:
    fields = filled_form(
        upstream, "Willows", team=team.public_id.hex, visibility="team", expires="7"
    )
    as_alice.post(reverse("conversation_new"), fields)
    room = Conversation.objects.get()
    assert timedelta(days=6.99) < room.expires_at - timezone.now() <= timedelta(days=7)
    assert (
        "Expires"
        in get_page(as_bob, url_of("conversation", room))
        .xpath("//div[@id='room-head']")[0]
        .text_content()
    )
    assert sidebar(as_bob)[1] == ["Willows"]
    assert find(alice, parse("willows")).count == 0
    assert "No matches" in get_page(as_bob, "/c/search/?q=willows").text_content()

    later(days=7)

    assert sidebar(as_bob) == ([], [])
    assert as_bob.get(url_of("conversation", room)).status_code == 404
    purge()
    # Its answer is stopped, and a round later everything is erased.
    assert Run.objects.get().finished_at
    assert change(as_alice, "restore", room).status_code == 404
    purge()
    assert not Conversation.objects.exists()
    assert AuditEvent.objects.get().verb == "conversation.purge"


def test_temporary_conversation_is_kept(as_alice: Client, alice: User, room: Room) -> None:
    room.turn("Willows")
    Conversation.objects.update(expires_at=timezone.now() + timedelta(days=1))
    assert find(alice, parse("willows")).count == 0

    change(as_alice, "keep", room.conversation)

    assert find(alice, parse("willows")).count > 0
    later(days=7)
    purge()
    assert Conversation.objects.exists()


# --- pages and responses ------------------------------------------------------------------------


def test_title_by_hand_stays(as_alice: Client, room: Room) -> None:
    change(as_alice, "rename", room.conversation, title="  By   hand ")

    room.turn("# A message with **another** title")

    room.conversation.refresh_from_db()
    assert room.conversation.title == "By hand"


def test_change_from_the_sidebar_refreshes_the_list_alone(
    as_alice: Client, rooms: list[Conversation]
) -> None:
    at = {**HTMX, "HX-Current-URL": "http://testserver/"}

    response = change(as_alice, "delete", rooms[0], headers=at)

    assert "list:stale" in response.headers["HX-Trigger"]
    assert "data-undo" in response.content.decode()
    here = {**HTMX, "HX-Current-URL": f"http://testserver{url_of('conversation', rooms[1])}"}
    response = change(as_alice, "delete", rooms[1], headers=here)
    assert response.headers["HX-Redirect"] == "/"
    assert get_page(as_alice, "/").xpath("//div[@data-undo]")


def test_foreign_and_missing_are_the_same(
    as_bob: Client, private_conversation: Conversation
) -> None:
    missing = Conversation(public_id=uuid.uuid4())

    for verb in ("pin", "archive", "delete", "restore", "erase"):
        foreign, absent = (change(as_bob, verb, each) for each in (private_conversation, missing))
        assert foreign.status_code == absent.status_code == 404
        assert without_token(foreign) == without_token(absent)


@pytest.mark.parametrize(
    "fields",
    [
        {"conversation": "x"},
        {"conversation": "\x00"},
        {"conversation": "", "title": "x"},
        {"place": "-1"},
        {"place": "x"},
    ],
)
def test_bad_fields_are_no_error(
    as_alice: Client, conversation: Conversation, fields: dict[str, str]
) -> None:
    sent = {"conversation": conversation.public_id.hex, **fields}

    assert as_alice.post(reverse("conversations_change", args=["pin"]), sent).status_code == 404
    assert as_alice.post("/conversations/unheard-of/", sent).status_code == 404


def test_queries_do_not_grow_with_conversations(
    as_alice: Client, alice: User, team: Team, upstream: Upstream
) -> None:
    def fill(count: int) -> None:
        for number in range(count):
            run = start_conversation(
                alice,
                team,
                text=f"{number}",
                choice=ModelChoice(upstream=upstream, model="demo/model"),
                idempotency_key=uuid.uuid4(),
            )
            if number % 3 == 0:
                actions.pin(alice, run.conversation)
            if number % 3 == 1:
                actions.archive(alice, run.conversation)

    pages = [reverse(name) for name in ("home", "conversations", "conversations_archived")]
    fill(4)
    for page in pages:
        as_alice.get(page)
    few = [queries_of(as_alice, page) for page in pages]
    fill(60)

    assert [queries_of(as_alice, page) for page in pages] == few


def test_older_lines_stay_when_the_list_is_fetched_again(
    as_alice: Client, alice: User, team: Team
) -> None:
    Conversation.objects.bulk_create(
        Conversation(team=team, owner=alice, title=str(number)) for number in range(120)
    )

    def count(query: str) -> int:
        body = as_alice.get(f"{reverse('conversation_list')}?{query}").content.decode()
        return body.count("data-room=")

    assert [count(f"lines={lines}") for lines in ("", "70", "-1", "x", "99999")] == [
        *(50, 70, 50, 50, 50)
    ]
