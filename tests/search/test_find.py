"""Searching: the same hits on SQLite and PostgreSQL, and only what a person may read."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest
from django.core.exceptions import PermissionDenied
from django.db import connection, transaction
from django.utils import timezone

from chat import access
from chat.conversations.actions import conversation as actions
from chat.conversations.actions.messages import ModelChoice, edit_message, start_conversation
from chat.core.errors import ActionRefused
from chat.models import (
    Conversation,
    Membership,
    Message,
    Project,
    ProjectAccess,
    ProjectRole,
    Role,
    SearchKind,
    Team,
    TeamRole,
    Upstream,
    User,
    Visibility,
)
from chat.organization import actions as organization
from chat.organization.purge import end_expired, erase_one
from chat.participants import actions as participants
from chat.projects import actions as projects
from chat.search.find import MOST_COUNTED, Hits, find, found
from chat.search.index import MOST_PARTS, PART_TOKENS
from chat.search.sources import backfill, clear, index, missing, outdated
from chat.search.tokens import operator, parse
from tests.search.documents import QUERIES, documents
from tests.search.scan import Everything, Found
from tests.support.rooms import Room, end_run
from tests.support.selection import EXHAUSTIVE, sample

pytestmark = pytest.mark.databases


def keys(user: User, query: str) -> Found:
    """The same however many conversations a person may read."""
    among_few, among_many = (
        set(found(user, parse(query), are_few=few).values_list("kind", "source"))
        for few in (True, False)
    )
    assert among_few == among_many
    return among_few


def shown(hits: Hits) -> list[str]:
    return [
        "".join(f"[{mark.text}]" if mark.is_match else mark.text for mark in hit.snippet)
        for hit in hits.hits
    ]


def test_message_and_answer_are_found(room: Room) -> None:
    room.turn("Willows in autumn")
    alice = room.conversation.owner

    assert sorted(shown(find(alice, parse("willows")))) == sorted(
        ["[Willows] in autumn", "Answer to: [Willows] in autumn"]
    )
    assert shown(find(alice, parse("willows answ"))) == ["[Answer] to: [Willows] in autumn"]


def test_overlapping_finds_are_shown_once(room: Room) -> None:
    room.turn("An old mill race")

    for query in ('mill "old mill"', '"old mill" "mill race"'):
        (hit,) = find(room.conversation.owner, parse(query), kinds=["message"]).hits
        assert "".join(mark.text for mark in hit.snippet) == "An old mill race"


def test_count_that_is_just_reached_has_no_more(
    alice: User, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.search.find.MOST_COUNTED", 2)
    counts = []
    for _ in range(3):
        message = Message.objects.create(conversation=conversation, role=Role.USER, text="A mill")
        index(SearchKind.MESSAGE, message)
        hits = find(alice, parse("mill "))
        counts.append((hits.count, hits.has_more_than_counted))

    assert counts == [(1, False), (2, False), (2, True)]


def test_two_hundred_documents_in_six_languages(alice: User, conversation: Conversation) -> None:
    messages = [
        Message.objects.create(conversation=conversation, role=Role.USER, author=alice, text=text)
        for text in documents()
    ]
    index(SearchKind.MESSAGE, *messages)

    hits = {query: keys(alice, query) for query in QUERIES}

    expected = Everything().scan(alice, *map(parse, QUERIES))
    for query, right in zip(QUERIES, expected, strict=True):
        parsed = parse(query)
        assert hits[query] == right or not (parsed.wanted or parsed.excluded), query
    # They are different questions, and most have answers.
    assert sum(bool(found) for found in hits.values()) > 40
    assert hits["cafe"] == hits["café"] != set()
    assert hits["nothingtobefound"] == set()


def test_all_words_of_a_long_text_are_found(alice: User, conversation: Conversation) -> None:
    count = PART_TOKENS * 3
    text = " ".join(f"w{number}" for number in range(count))
    message = Message.objects.create(conversation=conversation, role=Role.USER, text=text)
    index(SearchKind.MESSAGE, message)

    for number in (0, PART_TOKENS - 1, PART_TOKENS, count - 1):
        hits = find(alice, parse(f'"w{number}"'))
        assert (hits.count, len(hits.hits)) == (1, 1)
    # Of parts that all have the words, the text is one hit.
    assert len(find(alice, parse("w")).hits) == find(alice, parse("w")).count == 1
    assert MOST_PARTS > 3


def test_imported_texts_are_as_old_as_they_were(
    alice: User,
    conversation: Conversation,
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:
    now = timezone.now()
    messages = Message.objects.bulk_create(
        Message(
            conversation=conversation,
            role=Role.USER,
            text=f"A mill, {number}",
            created_at=now - timedelta(days=number),
        )
        for number in range(MOST_COUNTED + 1)
    )
    index(SearchKind.MESSAGE, *messages)

    for few, first, read in [(1_500, 1, 1), (0, 1, 1), (0, 500, 2_000), (0, 5_000, 1)]:
        with subtests.test(few=few, first=first, read=read):
            monkeypatch.setattr("chat.search.index.FEW_CONVERSATIONS", few)
            monkeypatch.setattr("chat.search.index.FIRST_ROWS", first)
            monkeypatch.setattr("chat.search.index.MOST_READ_ROWS", read)
            hits = find(alice, parse("mill "), limit=2)
            assert (hits.count, hits.has_more_than_counted) == (MOST_COUNTED, True)
            assert shown(hits) == ["A [mill], 0", "A [mill], 1"]


@pytest.mark.parametrize(
    "query", ["mill ", '"old mill"', "mill before:{day}", '"old mill" -not before:{day}']
)
def test_pages_are_everything_in_the_order_of_time(
    query: str,
    alice: User,
    conversation: Conversation,
    monkeypatch: pytest.MonkeyPatch,
    subtests: pytest.Subtests,
) -> None:
    now = timezone.now()
    days = list(range(60))
    random.Random(7).shuffle(days)
    messages = Message.objects.bulk_create(
        Message(
            conversation=conversation,
            role=Role.USER,
            text=f"An old mill, {day}" if day % 3 else f"A mill, old and not new, {day}",
            created_at=now - timedelta(days=day),
        )
        for day in days
    )
    index(SearchKind.MESSAGE, *messages)
    asked = parse(query.format(day=(now - timedelta(days=20)).date()))
    expected = [
        message.public_id
        for message in sorted(messages, key=lambda one: one.created_at, reverse=True)
        if ("old mill" in message.text or "old" not in query)
        and (not asked.before or message.created_at.date() < asked.before)
    ]

    for few, first in sample([(1_500, 1), (0, 1), (0, 7), (0, 25), (0, 100)], 3):
        with subtests.test(few=few, first=first):
            monkeypatch.setattr("chat.search.index.FEW_CONVERSATIONS", few)
            monkeypatch.setattr("chat.search.index.FIRST_ROWS", first)
            monkeypatch.setattr("chat.search.index.MOST_READ_ROWS", 2 * first)
            monkeypatch.setattr("chat.search.find.MOST_SLOW", 5)
            pages = [find(alice, asked, by_date=True, page=page, limit=9) for page in range(1, 8)]
            assert [hit.message for hits in pages for hit in hits.hits] == expected
            assert [hits.has_next for hits in pages] == [
                9 * page < len(expected) for page in range(1, 8)
            ]
            assert pages[-1].count == len(expected)
            assert not pages[-1].has_more_than_counted


def test_what_is_older_than_many_texts_of_one_moment_is_found(
    alice: User, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.search.index.FEW_CONVERSATIONS", 0)
    monkeypatch.setattr("chat.search.index.FIRST_ROWS", 3)
    now = timezone.now()
    times = [now - timedelta(days=days) for days in (0, 0, 0, 0, 0, 1, 2, 90)]
    messages = Message.objects.bulk_create(
        Message(conversation=conversation, role=Role.USER, text="A mill", created_at=at)
        for at in times
    )
    index(SearchKind.MESSAGE, *messages)

    hits = find(alice, parse("mill "), by_date=True).hits

    assert [hit.created_at for hit in hits] == times


@pytest.mark.parametrize("count", [5, 6])
def test_order_of_a_phrase_is_the_same_on_all_pages(
    count: int, alice: User, conversation: Conversation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chat.search.index.FEW_CONVERSATIONS", 0)
    monkeypatch.setattr("chat.search.find.MOST_SLOW", 5)
    messages = [
        Message.objects.create(
            conversation=conversation, role=Role.USER, text="An old mill" + " and more" * number
        )
        for number in range(count)
    ]
    index(SearchKind.MESSAGE, *messages)

    pages = [find(alice, parse('"old mill"'), page=page, limit=2) for page in (1, 2, 3)]

    found_messages = [hit.message for hits in pages for hit in hits.hits]
    by_relevance = [message.public_id for message in messages]
    is_costly = connection.vendor == "postgresql" and count == 6
    assert found_messages == (by_relevance[::-1] if is_costly else by_relevance)
    assert {hits.is_weighed for hits in pages} == {not is_costly}
    assert [hits.count for hits in pages] == ([5, 5, 6] if is_costly else [count] * 3)


Verb = Callable[["Club"], None]


class Club:
    """People, a team and conversations, to which anything may happen."""

    def __init__(self, team: Team, people: list[User], upstream: Upstream, seed: int) -> None:
        self.team, self.people, self.upstream = team, people, upstream
        self.chance = random.Random(seed)

    def conversation(self) -> Conversation | None:
        rooms = list(Conversation.objects.order_by("pk"))
        return self.chance.choice(rooms) if rooms else None

    def text(self) -> str:
        return " ".join(self.chance.choices(["willow", "river", "autumn", "東京都", "spring"], k=3))

    def choice(self) -> ModelChoice:
        return ModelChoice(upstream=self.upstream, model="demo/model")

    def start(self) -> None:
        run = start_conversation(
            self.chance.choice(self.people),
            self.team,
            text=self.text(),
            choice=self.choice(),
            idempotency_key=uuid.UUID(int=self.chance.getrandbits(128)),
            visibility=self.chance.choice([Visibility.PRIVATE, Visibility.TEAM]),
        )
        end_run(run, self.text())

    def edit(self) -> None:
        messages = list(Message.objects.filter(role=Role.USER).order_by("pk"))
        if messages:
            message = self.chance.choice(messages)
            key = uuid.UUID(int=self.chance.getrandbits(128))
            owner = message.conversation.owner
            run = edit_message(
                owner, message, text=self.text(), choice=self.choice(), idempotency_key=key
            )
            end_run(run, self.text())

    def rename(self) -> None:
        if room := self.conversation():
            actions.rename(room, self.text())

    def share(self) -> None:
        if room := self.conversation():
            visibility = self.chance.choice([Visibility.PRIVATE, room.shared_visibility])
            with suppress(PermissionDenied, ActionRefused):
                participants.set_visibility(room.owner, room, visibility)

    def delete(self) -> None:
        if room := self.conversation():
            actions.delete(room.owner, room)

    def restore(self) -> None:
        trash = list(Conversation.objects.filter(deleted_at__isnull=False).order_by("pk"))
        if trash:
            room = self.chance.choice(trash)
            if access.trashed_conversations(room.owner).filter(pk=room.pk).exists():
                organization.restore(room.owner, room)

    def archive(self) -> None:
        if room := self.conversation():
            organization.archive(room.owner, room)

    def pin(self) -> None:
        user = self.chance.choice(self.people)
        rooms = list(access.visible_conversations(user).order_by("pk"))
        if rooms:
            organization.pin(user, self.chance.choice(rooms), None)

    def expire(self) -> None:
        """Begins to be temporary, is kept, or has ended a while ago."""
        if room := self.conversation():
            room.expires_at = self.chance.choice(
                [None, timezone.now() + timedelta(days=1), timezone.now() - timedelta(seconds=1)]
            )
            room.save(update_fields=["expires_at"])

    def purge(self) -> None:
        erase_one()
        end_expired()

    def leave(self) -> None:
        Membership.objects.filter(team=self.team, user=self.chance.choice(self.people)).delete()

    def demote(self) -> None:
        members = Membership.objects.filter(team=self.team, user=self.chance.choice(self.people))
        members.update(role=self.chance.choice(TeamRole.values))

    def project(self) -> Project | None:
        found = list(Project.objects.order_by("pk"))
        return self.chance.choice(found) if found else None

    def found_project(self) -> None:
        with suppress(PermissionDenied):
            projects.create_project(
                self.chance.choice(self.people),
                self.team,
                name=self.chance.choice(["Bridge", "High Mill"]),
                access=self.chance.choice(ProjectAccess.values),
            )

    def move(self) -> None:
        """Into a project that its owner writes in, or out of one."""
        if room := self.conversation():
            written = access.writable_projects(room.owner).order_by("-pk")
            target = self.chance.choice([*written, *written, None])
            with suppress(PermissionDenied):
                projects.move_conversation(room.owner, room, target)

    def open_or_limit(self) -> None:
        if project := self.project():
            with suppress(PermissionDenied):
                projects.change_project(
                    self.chance.choice(self.people),
                    project,
                    access=self.chance.choice(ProjectAccess.values),
                )

    def select(self) -> None:
        if project := self.project():
            role = self.chance.choice(ProjectRole.values)
            with suppress(PermissionDenied, ActionRefused):
                projects.set_member(
                    self.chance.choice(self.people), project, self.chance.choice(self.people), role
                )

    def leave_project(self) -> None:
        user = self.chance.choice(self.people)
        if project := self.project():
            with suppress(ActionRefused):
                projects.remove_member(user, project, user)

    def delete_project(self) -> None:
        if project := self.project():
            with suppress(PermissionDenied):
                projects.delete_project(self.chance.choice(self.people), project)

    def join(self) -> None:
        user = self.chance.choice(self.people)
        Membership.objects.get_or_create(
            team=self.team, user=user, defaults={"role": TeamRole.MEMBER}
        )


VERBS = (
    *(Club.start, Club.start, Club.edit, Club.rename, Club.share, Club.delete),
    *(Club.leave, Club.join, Club.restore, Club.archive, Club.pin, Club.expire, Club.purge),
    *(Club.demote, Club.found_project, Club.move, Club.move, Club.move, Club.open_or_limit),
    *(Club.select, Club.leave_project, Club.delete_project),
)


ASKED = (
    *("willow -river", '"willow river"', "is:pinned", "is:archived", "is:shared is:pinned river"),
    *("is:shared", "in:bridge", 'in:"high MILL" river', "is:shared in:Bridge autumn"),
    "東京 aut",
)


@pytest.mark.parametrize("seed", range(12) if EXHAUSTIVE else [11])
def test_search_equals_a_full_scan_after_any_verbs(
    seed: int, team: Team, alice: User, bob: User, charlie: User, upstream: Upstream
) -> None:
    people = [alice, bob, charlie]
    club = Club(team, people, upstream, seed)
    for kind in ProjectAccess.values:
        projects.create_project(alice, team, name="Bridge", access=kind)
    for _ in range(6):
        club.start()
        club.move()

    for step in range(20):
        club.chance.choice(VERBS)(club)
        if step % 4 < 3:
            continue
        everything = Everything()
        for user in people:
            for query, expected in zip(
                ASKED, everything.scan(user, *map(parse, ASKED)), strict=True
            ):
                assert keys(user, query) == expected, (seed, step, query)
            # Counts and pages tell nothing of what others have: `expected` is that of the last query.
            hits = find(user, parse(ASKED[-1]), limit=1)
            assert hits.count == len(expected)
            assert hits.has_next == (len(expected) > 1)


def test_states_are_those_of_the_person_who_searches(
    alice: User, bob: User, team: Team, upstream: Upstream
) -> None:
    rooms = {
        name: Conversation.objects.create(
            owner=alice, team=team, title=f"Mill, {name}", visibility=Visibility.TEAM
        )
        for name in ("of Alice", "of Bob", "archived", "other")
    }
    index(SearchKind.TITLE, *rooms.values())
    organization.pin(alice, rooms["of Alice"], None)
    organization.pin(bob, rooms["of Bob"], None)
    organization.pin(bob, rooms["archived"], None)
    organization.archive(alice, rooms["archived"])

    def names(user: User, query: str) -> set[str]:
        return {hit.title.removeprefix("Mill, ") for hit in find(user, parse(query)).hits}

    assert names(alice, "mill is:pinned") == {"of Alice"}
    assert names(bob, "is:pinned") == {"of Bob", "archived"}
    assert names(bob, "mill is:pinned is:archived") == {"archived"}
    assert names(alice, "is:archived is:shared mill") == {"archived"}
    assert names(alice, "is:pinned is:archived") == set()


def test_filter_of_a_project_is_its_name(alice: User, bob: User, team: Team) -> None:
    names = {"Neue Brücke": "A", 'The "Old" Mill': "B", "NEUE BRÜCKE": "C"}
    for name, title in names.items():
        project = projects.create_project(alice, team, name=name)
        room = Conversation.objects.create(owner=alice, team=team, title=f"Mill, {title}")
        projects.move_conversation(alice, room, project)
        index(SearchKind.TITLE, room)
    projects.change_project(alice, project, access=ProjectAccess.MEMBERS)

    def found_in(user: User, query: str) -> dict[str, str]:
        hits = find(user, parse(query)).hits
        return {hit.title.removeprefix("Mill, "): hit.room for hit in hits}

    assert found_in(alice, 'in:"neue brücke"') == {"A": "Neue Brücke", "C": "NEUE BRÜCKE"}
    assert found_in(bob, 'mill in:"neue brücke"') == {"A": "Neue Brücke"}
    assert found_in(bob, operator("in", 'The "Old" Mill')) == {"B": 'The "Old" Mill'}
    assert found_in(bob, "mill in:neue") == {}
    assert set(found_in(bob, "mill is:shared")) == {"A", "B"}


def test_author_is_found_in_any_case(conversation: Conversation, subtests: pytest.Subtests) -> None:
    names = {"ana.lima@example.org": "Ana (b) a(b", "e@example.org": "Élodie Straße"}
    people = [User.objects.create(email=email, name=names[email]) for email in names]
    messages = [
        Message.objects.create(conversation=conversation, role=Role.USER, text="x", author=person)
        for person in people
    ]
    index(SearchKind.MESSAGE, *messages)

    for name in ("Élodie Straße", "élodie", "STRASSE", "elo", "ana.lima@", "a(b"):
        with subtests.test(name=name):
            expected = people[0] if name.startswith("a") else people[1]
            hits = find(conversation.owner, parse(operator("from", name))).hits
            assert [hit.author for hit in hits] == [expected.name]


def test_index_of_an_older_installation_is_filled(room: Room, alice: User) -> None:
    room.turn("Willows in autumn")
    before = keys(alice, "willows")
    clear()
    assert keys(alice, "willows") == set()
    assert missing(SearchKind.MESSAGE).count() == 1

    ((done, indexed),) = backfill()
    assert (done, indexed["message"], indexed["answer"]) == (1, 1, 1)

    assert keys(alice, "willows") == before
    assert all(not missing(kind).exists() for kind in SearchKind.values)
    assert not outdated().exists()


def test_a_failed_change_leaves_no_words(alice: User, room: Room) -> None:
    with transaction.atomic():
        actions.rename(room.conversation, "Willows")
        transaction.set_rollback(True)

    assert keys(alice, "willows") == set()


STRANGE = (
    *("", " ", '"', '""', "-", "--", "- - -", "NOT", "AND OR NOT", "NEAR(", "a* b*", "(", ")"),
    *("'", "''; DROP", "a:b", "from:", "has:", "before:now", "is:nothing", "\x00", "\ud800"),
    *("&", "|", "!", "<->", ":*", "'a':*", "\\", "%", "_", "🙂", "-🙂", "\u200d", "from:\x00"),
    *("x" * 10_000, "x " * 5_000, '"' * 10_000, "-x " * 5_000, "東" * 10_000, "\u0301" * 9_000),
    *("before:0001-01-01", "after:9999-12-31", "before:2026-02-30", "from:%", "model:_"),
)


def test_strange_queries_have_an_answer(alice: User, room: Room, subtests: pytest.Subtests) -> None:
    room.turn("Willows in autumn")

    for query in STRANGE:
        # A query that the database refused would end the transaction for those after it.
        with subtests.test(query=query[:20].encode("utf-8", "replace")), transaction.atomic():
            assert find(alice, parse(query)).count in range(10)
