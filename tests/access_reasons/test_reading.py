"""What administrators read of conversations that they are not part of: with a reason, for an hour."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import transaction
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from chat import access
from chat.models import (
    Artifact,
    ArtifactVersion,
    AuditEvent,
    Conversation,
    Membership,
    Mockup,
    MockupVersion,
    Project,
    ProjectMember,
    Team,
    TeamRole,
    Upstream,
    User,
    Visibility,
)
from chat.search.sources import backfill
from tests.administration.conversations import answer, ask
from tests.administration.pages import list_url, row_url, text_of
from tests.support.files import store_file
from tests.support.reasons import REASON, allow_search, give_reason

SignIn = Callable[[User], Client]

# What is only in the content, or is its title: a list shows none of it.
TITLE, QUESTION, ANSWER, FILE = "Divorce", "Who keeps the boat?", "The elder one.", "contract.txt"
CONTENT = (TITLE, QUESTION, ANSWER, FILE, "Draft of a letter", "Board of the marina")
LISTS = ("conversation", "run", "storedfile", "artifactversion", "mockupversion")


@pytest.fixture
def rows(alice: User, team: Team, upstream: Upstream) -> dict[str, Model]:
    """Alice's private conversation, and one of everything in it, by the name of its list."""
    room = Conversation.objects.create(team=team, owner=alice, title=TITLE)
    run = answer(ask(room, alice, QUESTION), ANSWER, upstream=upstream)
    artifact = Artifact.objects.create(conversation=room, artifact_id="a")
    mockup = Mockup.objects.create(conversation=room, bundle_id="b")
    version = {"run": run, "number": 1, "seq": 2}
    return {
        "conversation": room,
        "run": run,
        "storedfile": store_file(conversation=room, name=FILE, body=b"Draft of a letter"),
        "artifactversion": ArtifactVersion.objects.create(
            artifact=artifact, title="Draft of a letter", content="Draft of a letter", **version
        ),
        "mockupversion": MockupVersion.objects.create(
            mockup=mockup, title="Board of the marina", **version
        ),
    }


@pytest.fixture
def room(rows: dict[str, Model]) -> Conversation:
    found = rows["conversation"]
    assert isinstance(found, Conversation)
    return found


def shown(page: str) -> list[str]:
    return [words for words in CONTENT if words in page]


def asks(client: Client, url: str, room: Conversation) -> bool:
    """Returns whether the page leads to the one that asks for a reason, which shows nothing."""
    response = client.get(url)
    if response.status_code != 302:
        return False
    asked = response.headers["Location"]
    assert asked.startswith(f"/administration/open/{room.public_id}/?next=")
    page = text_of(client, asked)
    assert shown(page) == []
    assert "Alice" in page
    assert str(room.public_id) in page
    return True


# Who the administrator is to the conversation, and whether they may read it at once.
Relation = Callable[[User, Conversation], object]


def _stranger(user: User, room: Conversation) -> None:
    """In none of its teams."""


def _member(user: User, room: Conversation) -> None:
    """Of a team with which it is shared."""
    Membership.objects.create(team=room.team, user=user, role=TeamRole.VIEWER)
    Conversation.objects.filter(pk=room.pk).update(visibility=Visibility.TEAM)


def _colleague(user: User, room: Conversation) -> None:
    """Of its owner, who has not shared it."""
    Membership.objects.create(team=room.team, user=user, role=TeamRole.ADMIN)


def _in_project(user: User, room: Conversation) -> None:
    Membership.objects.create(team=room.team, user=user, role=TeamRole.MEMBER)
    project = Project.objects.create(team=room.team, name="Marina", access="members")
    ProjectMember.objects.create(project=project, user=user, role="reader")
    Conversation.objects.filter(pk=room.pk).update(project=project, visibility=Visibility.PROJECT)


def _owner(user: User, room: Conversation) -> None:
    Conversation.objects.filter(pk=room.pk).update(owner=user)


def _opener_of_another(user: User, room: Conversation) -> None:
    other = Conversation.objects.create(team=room.team, owner=room.owner, title="Other")
    give_reason(user, other)


def _colleague_of_an_opener(user: User, room: Conversation) -> None:
    other = User.objects.create_user("otto@example.org", None, name="Otto", is_staff=True)
    give_reason(other, room)


def _late_opener(user: User, room: Conversation) -> None:
    give_reason(user, room, given_at=timezone.now() - timedelta(minutes=61))


RELATIONS: list[tuple[Relation, bool]] = [
    (_stranger, False),
    (_colleague, False),
    (_opener_of_another, False),
    (_colleague_of_an_opener, False),
    (_late_opener, False),
    (give_reason, True),
    (_member, True),
    (_in_project, True),
    (_owner, True),
]


@pytest.mark.parametrize(
    ("relation", "reads"), [(_stranger, False), (give_reason, True), (_member, True)]
)
def test_content_and_titles_are_for_its_people_and_for_who_gave_a_reason(
    relation: Relation,
    reads: bool,
    ada: Client,
    administrator: User,
    rows: dict[str, Model],
    room: Conversation,
) -> None:
    relation(administrator, room)

    for row in rows.values():
        assert asks(ada, row_url(row), room) is not reads
    listed = " ".join(text_of(ada, list_url(model)) for model in LISTS)
    assert (TITLE in listed) is reads
    assert (FILE in listed) is reads
    assert str(room.public_id) in listed
    assert "Alice" in listed
    # The start page, the audit log and the page of an event.
    event = AuditEvent.objects.record(None, "conversation.erase", target=str(room.public_id))
    for url in (reverse("admin:index"), list_url("auditevent"), row_url(event)):
        page = text_of(ada, url)
        assert (TITLE in page) is reads
        assert (str(room.public_id) in page) or reads


def test_rule_is_the_same_for_one_and_for_lists(
    administrator: User, room: Conversation, subtests: pytest.Subtests
) -> None:
    for relation, reads in RELATIONS:
        with subtests.test(relation.__name__), transaction.atomic():
            relation(administrator, room)
            room.refresh_from_db()

            listed = Conversation.objects.filter(access.is_readable(administrator), pk=room.pk)

            assert (access.reading_of(administrator, room) is not None) is reads
            assert listed.exists() is reads
            transaction.set_rollback(True)


def test_reason_is_of_no_use_to_who_is_no_administrator_anymore(
    administrator: User, ada: Client, room: Conversation
) -> None:
    give_reason(administrator, room)
    User.objects.update(is_staff=False)
    administrator.refresh_from_db()

    assert access.reading_of(administrator, room) is None
    assert not Conversation.objects.filter(access.is_readable(administrator)).exists()
    assert ada.get(row_url(room), follow=True).status_code == 403


def test_reason_is_valid_for_an_hour(
    ada: Client,
    administrator: User,
    room: Conversation,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    give_reason(administrator, room)
    allow_search(administrator, "boat")
    given = timezone.now()
    for minutes, reads in ((59, True), (60, False)):
        monkeypatch.setattr(timezone, "now", lambda: given + timedelta(minutes=minutes))  # noqa: B023

        assert asks(ada, row_url(room), room) is not reads
        assert (TITLE in text_of(ada, list_url("conversation"))) is reads
        assert (ada.get(list_url("conversation"), {"q": "boat"}).status_code == 200) is reads


def test_lists_cannot_be_sorted_by_what_they_hide(ada: Client, rows: dict[str, Model]) -> None:
    for model in LISTS:
        page = text_of(ada, list_url(model))

        first = page[page.index("<thead") :].partition("</th>")[0]
        assert "<a" not in first


# --- searching --------------------------------------------------------------------------------


def test_search_needs_a_reason_of_its_own(
    ada: Client, administrator: User, rows: dict[str, Model], room: Conversation
) -> None:
    list(backfill())
    give_reason(administrator, room)
    url = f"{list_url('conversation')}?q=keeps++the+boat&deleted=no"

    asked = ada.get(url).headers["Location"]
    page = text_of(ada, asked)
    refused = ada.post(asked, {"next": url, "reason": " "})

    assert "keeps the boat" in page
    assert refused.status_code == 422
    assert not AuditEvent.objects.exists()

    assert ada.post(asked, {"next": url, "reason": REASON}).headers["Location"] == url

    assert [each.pk for each in ada.get(url).context["cl"].result_list] == [room.pk]
    event = AuditEvent.objects.get()
    assert (event.actor, event.verb) == (administrator, "conversation.search_by_administrator")
    assert event.detail == {"words": "keeps the boat", "reason": REASON}
    # Neither other words nor another administrator may use it.
    assert ada.get(list_url("conversation"), {"q": "boat"}).status_code == 302


def test_search_reveals_no_titles(
    ada: Client, administrator: User, rows: dict[str, Model], room: Conversation
) -> None:
    list(backfill())
    allow_search(administrator, TITLE)

    page = text_of(ada, list_url("conversation"), q=TITLE)

    assert f"><small>{room.public_id}</small>" in page
    assert f">{TITLE}<" not in page


def test_search_for_an_id_needs_no_reason(ada: Client, room: Conversation) -> None:
    found = ada.get(list_url("conversation"), {"q": str(room.public_id)})

    assert [each.pk for each in found.context["cl"].result_list] == [room.pk]
    assert not AuditEvent.objects.exists()


def test_runs_are_not_searched_by_title(ada: Client, rows: dict[str, Model]) -> None:
    assert not ada.get(list_url("run"), {"q": TITLE}).context["cl"].result_list
    assert ada.get(list_url("run"), {"q": "demo/model"}).context["cl"].result_list
