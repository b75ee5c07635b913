"""The rule of access says the same to everybody who asks it: pages, lists, the monitor, the queue, search,
exports and the lists of readers and writers. And nobody states it anew."""

from __future__ import annotations

import ast
import re
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from itertools import cycle, product
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import Http404
from django.utils import timezone

from chat import access
from chat.conversations.list_version import read_list_versions
from chat.conversations.listing import lines_of_some
from chat.exports import many
from chat.live import access_monitor
from chat.live.access_monitor import Identity
from chat.models import (
    Conversation,
    ConversationRole,
    Group,
    GroupMember,
    JobScope,
    Membership,
    Message,
    Participant,
    Presence,
    Project,
    ProjectAccess,
    ProjectMember,
    ProjectRole,
    Question,
    Run,
    SearchKind,
    Team,
    TeamRole,
    User,
    Visibility,
)
from chat.presence.records import read_lists
from chat.runs import queue
from chat.search.find import found
from chat.search.sources import index
from chat.search.tokens import parse
from tests.support.selection import sample
from tests.test_import_directions import sources, tree_of

# A person's role in the team (``None``: removed from it), that in the project, their role as a participant
# with that of their group, and whether the account is enabled. `make test-all` takes all.
TAKEN = [
    (None, None),
    *product(ConversationRole.values, [None]),
    *product([None], ConversationRole.values),
    ("reader", "writer"),
]
# What a person has beside a role in the team: one in the project, or a part in the conversation, or both.
BESIDE = [
    *product([*ProjectRole.values, None], [(None, None)]),
    *product([None], TAKEN[1:]),
    (ProjectRole.READER, ("writer", None)),
    (ProjectRole.WRITER, (None, "manager")),
]
ENABLED = [(role, *beside, True) for role in [*TeamRole.values, None] for beside in BESIDE]
DISABLED = [(*kind[:3], False) for kind in ENABLED[::5]]
PEOPLE = sample([*ENABLED, *DISABLED], 12)
# The visibility of a conversation, and the access of its project; ``None``: it is in none. At last the role
# that it gives the team.
SHAPES = [
    (Visibility.PRIVATE, None, "writer"),
    (Visibility.TEAM, None, "reader"),
    (Visibility.TEAM, None, "writer"),
    *product([Visibility.PRIVATE, Visibility.PROJECT], ProjectAccess.values, ["writer"]),
]
STATES = {
    "present": {},
    "temporary": {"expires_at": timedelta(days=1)},
    "trashed": {"deleted_at": timedelta()},
    "expired": {"expires_at": timedelta(seconds=-1)},
    "erased": {"deleted_at": timedelta(days=-2), "expires_at": timedelta(days=-1)},
}
# Pages of managers load a conversation as all pages do, and then ask what the loaded one says: that they
# ask is tried on every so manieth pair. Coprime to the conversations of a person, so that each kind of them
# comes up.
MANAGED_STEP = 7
Pair = tuple[User, Conversation]


@dataclass(frozen=True)
class Table:
    """Each kind of person, and of each kind of conversation one that somebody else owns and one of each
    person. Each takes part in what somebody else owns. ``reads``, ``writes`` and ``manages`` are what is to be."""

    team: Team
    stranger: User
    people: list[User]
    rooms: list[Conversation]
    others: list[Conversation]
    # Every person with what is their own and with what is somebody else's.
    pairs: list[Pair]
    reads: set[Pair]
    writes: set[Pair]
    manages: set[Pair]
    restores: set[Pair]

    def those_of(self, pick: Callable[[User], Iterable[Conversation]]) -> set[Pair]:
        return {
            (person, room)
            for person in self.people
            for room in self._among_pairs(person, pick(person))
        } & set(self.pairs)

    def owners_for(self, person: User) -> list[User]:
        """Who owns what is asked about for this person."""
        return [self.stranger, person]

    def _among_pairs(self, person: User, rooms: Iterable[Conversation]) -> Iterable[Conversation]:
        """Without what other people own: a person reads up to two thousand of those, and to make all of
        them took most of the time."""
        if isinstance(rooms, QuerySet):
            return rooms.filter(owner__in=self.owners_for(person))
        return rooms


@pytest.fixture
def table(transactional_db: None, upstream: object) -> Table:
    team = Team.objects.create(name="Bridge")
    stranger, *people = User.objects.bulk_create(
        User(email=f"{number}@example.org", is_active=number == 0 or PEOPLE[number - 1][3])
        for number in range(len(PEOPLE) + 1)
    )
    Membership.objects.create(team=team, user=stranger)
    projects = {kind: Project.objects.create(team=team, access=kind) for kind in ProjectAccess}
    for person, (role, project_role, _, _) in zip(people, PEOPLE, strict=True):
        if role:
            Membership.objects.create(team=team, user=person, role=role)
        if project_role:
            ProjectMember.objects.bulk_create(
                ProjectMember(project=each, user=person, role=project_role)
                for each in projects.values()
            )
    now = timezone.now()
    rooms = Conversation.objects.bulk_create(
        Conversation(
            team=team,
            owner=owner,
            title="Piers",
            visibility=visibility,
            shared_role=shared_role,
            project=projects[kind] if kind else None,
            **{name: now + after for name, after in STATES[state].items()},
        )
        for owner, (visibility, kind, shared_role), state in product(
            [stranger, *people], SHAPES, STATES
        )
    )
    others = [room for room in rooms if room.owner_id == stranger.pk]
    add_participants(team, people, others)
    states = dict(zip((room.pk for room in rooms), cycle(STATES), strict=False))
    pairs = [
        (person, room)
        for person, room in product(people, rooms)
        if room.owner_id in (stranger.pk, person.pk)
    ]
    kinds = dict(zip(people, PEOPLE, strict=True))
    rights = {
        (person, room): expected(
            kinds[person], room, states[room.pk], is_own=room.owner_id == person.pk
        )
        for person, room in pairs
    }
    return Table(
        team=team,
        stranger=stranger,
        people=people,
        rooms=rooms,
        others=others,
        pairs=pairs,
        reads={pair for pair, right in rights.items() if right in ("read", "write", "manage")},
        writes={pair for pair, right in rights.items() if right in ("write", "manage")},
        manages={pair for pair, right in rights.items() if right == "manage"},
        restores={pair for pair, right in rights.items() if right == "restore"},
    )


def add_participants(team: Team, people: list[User], rooms: list[Conversation]) -> None:
    """To these conversations, as `PEOPLE` says, with a group of their own for each that is in one."""
    for person, (_, _, (role, group_role), _) in zip(people, PEOPLE, strict=True):
        added = [(role, {"person": person})] if role else []
        if group_role:
            group = Group.objects.create(team=team, name=person.email)
            GroupMember.objects.create(group=group, user=person)
            added.append((group_role, {"group": group}))
        Participant.objects.bulk_create(
            Participant(conversation=room, role=given, **who)
            for room, (given, who) in product(rooms, added)
        )


def expected(person: Any, room: Conversation, state: str, *, is_own: bool) -> str:
    """ "read", "write", "manage", "restore" or nothing: the table of `rooms.md` section 1 in words of its own."""
    role, project_role, taken, is_enabled = person
    if state in ("expired", "erased") or role is None or not is_enabled:
        return ""
    given = {"manager"} if is_own else set(taken) - {None}
    if role != TeamRole.GUEST and room.visibility == Visibility.TEAM:
        given.add(room.shared_role)
    if role != TeamRole.GUEST and room.visibility == Visibility.PROJECT:
        assert room.project is not None
        if room.project.access == ProjectAccess.TEAM:
            given.add("writer")
        elif project_role is not None:
            given.add("reader" if project_role == ProjectRole.READER else "writer")
    may_manage = "manager" in given and role not in (TeamRole.VIEWER, TeamRole.GUEST)
    if state == "trashed":
        return "restore" if may_manage else ""
    if may_manage:
        return "manage"
    if given & {"writer", "manager"} and role != TeamRole.VIEWER:
        return "write"
    return "read" if given else ""


def with_others(table: Table) -> set[Pair]:
    """The conversations that the list marks, while somebody is in each of them: in those of the stranger,
    and then in the own ones of one person after the other. In all of them at once, the lists of all would
    weigh each person against four thousand conversations of the others."""
    somebody = User.objects.create_user("somebody@example.org")
    marked: set[Pair] = set()
    asked = [(table.people, table.others)]
    asked += [
        ([person], [room for room in table.rooms if room.owner_id == person.pk])
        for person in table.people
    ]
    for people, rooms in asked:
        Presence.objects.all().delete()
        Presence.objects.bulk_create(
            Presence(user=somebody, conversation=room, seen_at=timezone.now()) for room in rooms
        )
        found = read_lists([person.pk for person in people])
        marked |= {
            (person, room)
            for person, room in product(people, rooms)
            if room.public_id.hex in found[person.pk]
        }
    return marked


@pytest.mark.databases
def test_everybody_asks_one_rule(
    table: Table, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    monkeypatch.setattr(access_monitor, "_is_signed_in", lambda *_: True)
    assert len(table.pairs) == 2 * len(PEOPLE) * len(SHAPES) * len(STATES)
    own = {(person, room) for person, room in table.pairs if room.owner_id == person.pk}
    reads_as_page, writes_as_page, manages_as_page = loaded(table)
    with subtests.test("managers"):
        assert table.those_of(access.managed_conversations) == table.manages
        assert manages_as_page == table.manages
        some = table.pairs[::MANAGED_STEP]
        assert managed_pages(some) == table.manages & set(some)
        assert table.those_of(access.trashed_conversations) == table.restores
        assert table.those_of(access.own_trashed_conversations) == table.restores & own
    lasting = {pair for pair in table.reads if pair[1].expires_at is None}
    asked = {
        "conversations": (
            table.those_of(access.visible_conversations),
            table.those_of(access.writable_conversations),
        ),
        "pages": (reads_as_page, writes_as_page),
        "monitor": monitored(table),
        "list": (listed(table), table.writes),
        "queue": (table.reads, claimed(table)),
        "inbox": (table.reads, answerable(table)),
        "search": (searched(table) | table.reads - lasting, table.writes),
        "presence": (with_others(table), table.writes),
        "administration": (
            table.those_of(lambda person: Conversation.objects.filter(access.is_readable(person))),
            table.writes,
        ),
    }

    for name, (reads, writes) in asked.items():
        with subtests.test(name):
            extra = own if name == "administration" else set()
            assert reads == table.reads | extra
            assert writes == table.writes
    with subtests.test("exports"):
        assert table.those_of(lambda person: many.allowed_to(person, JobScope.OWN, None)) == (
            lasting & own
        )
        owners = set(User.objects.filter(memberships__role=TeamRole.OWNER))
        shared = set(many.shared_in(table.team))
        assert table.those_of(
            lambda person: many.allowed_to(person, JobScope.TEAM, table.team)
        ) == {(person, room) for person, room in lasting if person in owners and room in shared}
        # As far as everyone on the team reads it, except guests.
        assert shared & set(table.others) == {
            room
            for room in table.others
            if room.expires_at is None and room.deleted_at is None and is_for_everyone(room)
        }
    with subtests.test("versions of lists"):
        check_list_versions(table)


def is_for_everyone(room: Conversation) -> bool:
    if room.project is None:
        return room.visibility == Visibility.TEAM
    is_shared = room.visibility == Visibility.PROJECT
    return is_shared and room.project.access == ProjectAccess.TEAM


def loaded(table: Table) -> tuple[set[Pair], set[Pair], set[Pair]]:
    reads, writes, manages = set(), set(), set()
    for person, room in table.pairs:
        with suppress(Http404):
            known = access.get_conversation(person, room.public_id)
            reads.add((person, room))
            if access.may_write(person, known):
                writes.add((person, room))
            if access.may_manage(person, known):
                manages.add((person, room))
    return reads, writes, manages


def managed_pages(pairs: Iterable[Pair]) -> set[Pair]:
    managed = set()
    for person, room in pairs:
        with suppress(Http404, PermissionDenied):
            access.get_managed_conversation(person, room.public_id)
            managed.add((person, room))
    return managed


def monitored(table: Table) -> tuple[set[Pair], set[Pair]]:
    verdicts = access_monitor.check(
        (Identity(user_pk=person.pk), frozenset([room.public_id])) for person, room in table.pairs
    ).verdicts
    kept = {
        pair: verdict[0]
        for pair, verdict in zip(table.pairs, verdicts, strict=True)
        if isinstance(verdict, list)
    }
    return set(kept), {pair for pair, room in kept.items() if room.may_write}


def listed(table: Table) -> set[Pair]:
    rooms = {room.public_id: room for room in table.rooms}
    keys = defaultdict(list)
    for person, room in table.pairs:
        keys[person].append(room.pk)
    return table.those_of(
        lambda person: [
            rooms[each.line.public_id] for each in lines_of_some(person.pk, keys[person])
        ]
    )


def claimed(table: Table) -> set[Pair]:
    answers = Message.objects.bulk_create(
        Message(conversation=room, role="assistant") for _, room in table.pairs
    )
    runs = Run.objects.bulk_create(
        Run(conversation=room, message=answer, requested_by=person, idempotency_key=uuid.uuid4())
        for (person, room), answer in zip(table.pairs, answers, strict=True)
    )
    wanted = {run.pk for run in queue._queued_with_rights(len(runs)).all() if not run.is_unwanted}
    return {pair for pair, run in zip(table.pairs, runs, strict=True) if run.pk in wanted}


def answerable(table: Table) -> set[Pair]:
    runs = {run.conversation_id: run for run in Run.objects.order_by("-pk")}
    Question.objects.bulk_create(
        Question(conversation=room, run=runs[room.pk], kind="ask") for room in table.rooms
    )
    return table.those_of(
        lambda person: [
            each.conversation
            for each in access.questions_for(person)
            .filter(conversation__owner__in=table.owners_for(person))
            .select_related("conversation")
        ]
    )


def searched(table: Table) -> set[Pair]:
    index(SearchKind.TITLE, *table.rooms)
    query = parse("piers")
    return table.those_of(
        lambda person: [
            each.conversation
            for each in found(person, query, are_few=True)
            .filter(conversation__owner__in=table.owners_for(person))
            .select_related("conversation")
        ]
    )


def check_list_versions(table: Table) -> None:
    """The list of everybody who reads a conversation has another version when that changes."""
    people = [person.pk for person in table.people]
    at = timezone.now()
    after = read_list_versions(people)
    for number, room in enumerate(table.others):
        before = after
        Conversation.objects.filter(pk=room.pk).update(
            updated_at=at + timedelta(seconds=number + 1)
        )
        after = read_list_versions(people)
        readers = {person for person, read in table.reads if read == room}
        changed = {person for person in table.people if before[person.pk] != after[person.pk]}
        assert readers <= changed
        if readers:
            on_team = User.objects.filter(memberships__team=table.team, is_active=True)
            assert changed & set(on_team) == readers


@pytest.mark.databases
def test_readers_and_writers_are_those_of_the_rule(table: Table) -> None:
    people: dict[Conversation, set[User]] = defaultdict(set)
    for person, room in table.pairs:
        people[room].add(person)
    own = sorted(people.keys() - set(table.others), key=lambda room: room.pk)
    # Each conversation costs three statements about all people, a second in all.
    for room in [*table.others, *own[:: len(own) // 20 + 1]]:
        readers = {member.user for member in access.readers_of(room)} & people[room]
        writers = {member.user for member in access.writers_of(room)} & people[room]
        managers = {member.user for member in access.managers_of(room)} & people[room]
        assert managers == {person for person in people[room] if (person, room) in table.manages}
        assert readers == {person for person in people[room] if (person, room) in table.reads}
        assert writers == {person for person in people[room] if (person, room) in table.writes}


# --- who states it ------------------------------------------------------------------------------

VALUES = {*Visibility.values, *ProjectRole.values, *ConversationRole.values}
IN_SQL = re.compile(
    r"\bvisibility\s*(=|<>|!=|IN\b|WHEN\b)|role\s*(=|<>|!=|IN\b)[\s(]*'(manager|writer|reader)'",
    re.I,
)


def conditions_in(text: str) -> Iterator[str]:
    """Comparisons of a visibility or of a role in a project, as Python, as queries and as SQL."""
    for node in ast.walk(tree_of(text)):
        match node:
            case ast.Compare() if names_a_value(node):
                yield ast.unparse(node)
            case ast.Call(
                func=ast.Name(id="Q" | "When") | ast.Attribute(attr="filter" | "exclude")
            ):
                for keyword in node.keywords:
                    if is_about(keyword.arg or "", ast.unparse(keyword.value)):
                        yield ast.unparse(keyword)
            case ast.Constant(value=str(value)) if "SELECT" in value and IN_SQL.search(value):
                yield value


def names_a_value(node: ast.Compare) -> bool:
    """Of an enumeration, or of a field that has its values."""
    words = [each for side in (node.left, *node.comparators) for each in ast.walk(side)]
    text = ast.unparse(node)
    if re.search(r"\b(Visibility|ProjectRole|ConversationRole)\.", text):
        return True
    has_value = any(isinstance(each, ast.Constant) and each.value in VALUES for each in words)
    return has_value and bool(re.search(r"visibility|project_role|shared_role", text))


def is_about(keyword: str, value: str) -> object:
    *_, name = keyword.removesuffix("__in").split("__")
    is_of_conversation = name in ("visibility", "shared_role")
    return is_of_conversation or (name == "role" and re.search("(Project|Conversation)Role", value))


def test_only_access_states_the_rule() -> None:
    stated = {
        module: [*conditions_in(text)]
        for module, text in sources()
        # What a record says of itself, and its constraints.
        if not module.startswith(("chat.access", "chat.models."))
    }

    assert {module: found for module, found in stated.items() if found} == {}


@pytest.mark.parametrize(
    "text",
    [
        "if room.visibility == 'team': ...",
        "mark = 1 if room.visibility != Visibility.PRIVATE else 2",
        "seen = role in (ProjectRole.MANAGER, ProjectRole.WRITER)",
        "rooms.filter(conversation__visibility='team')",
        "rooms.exclude(Q(visibility__in=shared))",
        "members.filter(role=ProjectRole.READER)",
        "rows.filter(role=ConversationRole.MANAGER)",
        "if room.shared_role == 'writer': ...",
        "fetch(\"SELECT 1 FROM chat_conversation WHERE visibility = 'team'\")",
        "fetch(\"SELECT 1 FROM chat_projectmember WHERE role IN ('manager')\")",
        "fetch(\"SELECT CASE visibility WHEN 'team' THEN 1 END\")",
    ],
)
def test_statement_of_the_rule_is_found(text: str) -> None:
    assert len(list(conditions_in(text))) == 1
