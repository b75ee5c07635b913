"""What the rule of access costs among 100,000 conversations of 500 people, on both databases.

``make bench BENCH=access``. CPU time of this process and of its database together, so that a busy machine
does not change the figures. With ``ACCESS_ROUNDS=1`` before it a faster one, for a first look.
"""

from __future__ import annotations

import json
import os
import random
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import django

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    django.setup()

from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from chat import access
from chat.conversations.list_channel import ListLook
from chat.conversations.listing import lines_of_some, listing_context
from chat.conversations.queue_channel import QueueLook
from chat.live import access_monitor
from chat.live.access_monitor import Identity
from chat.models import (
    Conversation,
    ConversationRole,
    Group,
    GroupMember,
    Membership,
    Message,
    Participant,
    Project,
    ProjectAccess,
    ProjectMember,
    ProjectRole,
    Question,
    QuestionKind,
    Run,
    RunStatus,
    Team,
    TeamRole,
    Upstream,
    User,
    Visibility,
)
from chat.models.team import FULL_ROLES
from chat.runs import queue
from tests.bench.both_databases import measured_on_both
from tests.bench.load.arithmetic import median

CONVERSATIONS = 100_000
PEOPLE, TEAMS, PROJECTS_OF_A_TEAM, SELECTED = 500, 20, 10, 8
# Conversations of others that each person takes part in, and those of a group of ten in each team.
TAKEN_PART_IN, SHARED_WITH_GROUP = 20, 50
CONNECTIONS = 500
QUEUED, QUESTIONS = 500, 200
ROUNDS = int(os.environ.get("ACCESS_ROUNDS", "7"))
ROUND_SECONDS = 1.0

Work = Callable[[], object]


def report() -> str:
    lines = [
        f"Access: {CONVERSATIONS:,} conversations, {PEOPLE} people, {CONNECTIONS} connections, "
        f"{QUEUED} queued runs; CPU ms of process and database"
    ]
    for name, found in measured_on_both("tests.bench.access"):
        lines += _told(name, found)
    return "\n".join(lines)


def _told(name: str, found: dict[str, float]) -> list[str]:
    return ["", name, *(f"  {what:<44}{ms:>10.3f}" for what, ms in found.items())]


# --- in the process of one database -------------------------------------------------------------


def measure() -> dict[str, float]:
    """Medians, in milliseconds. A database that is filled already is measured as it is, so that two
    commits can take turns with one."""
    call_command("migrate", verbosity=0)
    if not Conversation.objects.exists():
        _fill(random.Random(20_261_128))
    works = _works(random.Random(7))
    for work in works.values():
        work()
    spent: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(ROUNDS):
        for name, work in works.items():
            spent[name].append(_cpu_ms(work))
    return {name: median(times) for name, times in spent.items()}


def _works(chance: random.Random) -> dict[str, Work]:
    questions, people = _questions(chance), list(User.objects.order_by("pk")[:PEOPLE])
    keys = [user.pk for user in people]
    looks: list[access_monitor.AskedLook] = [
        ("list", ListLook(), keys),
        ("queue", QueueLook(), [True] * len(keys)),
    ]
    pages = [(identity.user_pk, *rooms) for identity, rooms in questions]
    known = {user.pk: user for user in people}
    reader = people[0]
    changed = list(Conversation.objects.order_by("-updated_at").values_list("pk", flat=True)[:20])
    runner = uuid.uuid4()
    return {
        f"rights of {CONNECTIONS} connections": lambda: access_monitor.check(questions),
        f"check of {CONNECTIONS} connections": lambda: access_monitor.look_at_all(questions, looks),
        f"claim among {QUEUED} queued runs": lambda: queue.claim(runner, limit=0),
        "20 conversations by their ids": lambda: [
            access.get_conversation(known[person], room) for person, room in pages[:20]
        ],
        "list of conversations": lambda: listing_context(reader),
        "20 changed lines of the list": lambda: lines_of_some(reader.pk, changed),
        "inbox": lambda: list(access.questions_for(reader)),
        "readers and writers of a conversation": lambda: _people_of(pages[0][1]),
    }


def _people_of(public_id: uuid.UUID) -> list[Membership]:
    room = Conversation.objects.select_related("project").get(public_id=public_id)
    return [*access.readers_of(room), *access.writers_of(room)]


def _questions(chance: random.Random) -> list[tuple[Identity, frozenset[uuid.UUID]]]:
    """Each connection shows a conversation that its person may read: half of them shared ones."""
    teams = dict(Membership.objects.order_by("-pk").values_list("user", "team"))
    sessions = dict(
        zip(
            User.objects.order_by("pk").values_list("pk", flat=True),
            Session.objects.order_by("session_key").values_list("session_key", flat=True),
            strict=False,
        )
    )
    present = Conversation.objects.filter(deleted_at__isnull=True, expires_at__isnull=True)
    found = []
    for number, (person, team) in enumerate(sorted(teams.items())[:CONNECTIONS]):
        rooms = present.filter(team=team)
        shared = rooms.filter(visibility=Visibility.TEAM)
        room = chance.choice(
            shared.values_list("public_id", flat=True)[:50]
            if number % 2
            else rooms.filter(owner=person).values_list("public_id", flat=True)[:50]
        )
        identity = Identity(user_pk=person, session_key=sessions[person])
        found.append((identity, frozenset([room])))
    return found


def _cpu_ms(work: Work) -> float:
    """Of one call, on average of those of a second."""
    count, started, ends_at = 0, _cpu_seconds(), time.monotonic() + ROUND_SECONDS
    while not count or time.monotonic() < ends_at:
        work()
        count += 1
    return 1000 * (_cpu_seconds() - started) / count


def _cpu_seconds() -> float:
    spent = time.process_time()
    if connection.vendor == "postgresql":
        backend: Any = connection.connection
        figures = Path(f"/proc/{backend.info.backend_pid}/schedstat").read_text()
        spent += int(figures.split()[0]) / 1e9
    return spent


# --- the rows -----------------------------------------------------------------------------------


def _fill(chance: random.Random) -> None:
    people = User.objects.bulk_create(
        User(email=f"p{n}@example.org", name=f"Person {n}") for n in range(PEOPLE)
    )
    later = timezone.now() + timedelta(days=9)
    Session.objects.bulk_create(
        Session(session_key=f"{n:032}", session_data="", expire_date=later) for n in range(PEOPLE)
    )
    teams = Team.objects.bulk_create(Team(name=f"Team {n}") for n in range(TEAMS))
    on_team = [people[n::TEAMS] for n in range(TEAMS)]
    Membership.objects.bulk_create(
        Membership(team=team, user=user, role=role)
        for n, team in enumerate(teams)
        for user, role in [
            *((user, chance.choice(FULL_ROLES)) for user in on_team[n]),
            # Every tenth person is on the next team, too.
            *((user, TeamRole.MEMBER) for user in on_team[n - 1][::10]),
        ]
    )
    projects = {team.pk: _projects_of(team, on_team[n], chance) for n, team in enumerate(teams)}
    upstream = Upstream.objects.create(
        name="Bench",
        dialect="openai_chat",
        base_url="http://127.0.0.1:9/v1",
        model_list=[{"id": "bench"}],
        concurrency_limit=100,
    )
    rooms = Conversation.objects.bulk_create(
        (
            _conversation(teams[n % TEAMS], on_team[n % TEAMS], projects, n, chance)
            for n in range(CONVERSATIONS)
        ),
        batch_size=1_000,
    )
    _queue_runs(rooms, upstream)
    for team, members in zip(teams, on_team, strict=True):
        _share(team, members, rooms, chance)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


def _projects_of(team: Team, people: list[User], chance: random.Random) -> list[Project]:
    kinds = (ProjectAccess.TEAM, ProjectAccess.MEMBERS)
    made = Project.objects.bulk_create(
        Project(team=team, name=f"Project {n}", access=kinds[n % 2])
        for n in range(PROJECTS_OF_A_TEAM)
    )
    ProjectMember.objects.bulk_create(
        ProjectMember(project=project, user=user, role=chance.choice(ProjectRole.values))
        for project in made[1::2]
        for user in chance.sample(people, SELECTED)
    )
    return made


def _conversation(
    team: Team,
    people: list[User],
    projects: dict[int, list[Project]],
    number: int,
    chance: random.Random,
) -> Conversation:
    """Half of them are private, a quarter each are shared with the team and with a project."""
    now = timezone.now()
    visibility = (
        *(Visibility.PRIVATE, Visibility.PRIVATE),
        *(Visibility.TEAM, Visibility.PROJECT),
    )[chance.randrange(4)]
    return Conversation(
        team=team,
        owner=chance.choice(people),
        visibility=visibility,
        project=chance.choice(projects[team.pk]) if visibility == Visibility.PROJECT else None,
        title=f"Conversation {number}",
        updated_at=now - timedelta(minutes=number),
        archived_at=now if chance.random() < 0.05 else None,
        deleted_at=now if chance.random() < 0.02 else None,
        expires_at=now + timedelta(days=chance.choice((-1, 9))) if chance.random() < 0.01 else None,
    )


def _share(
    team: Team, people: list[User], rooms: list[Conversation], chance: random.Random
) -> None:
    inside = [room for room in rooms if room.team_id == team.pk]
    Participant.objects.bulk_create(
        Participant(conversation=room, person=person, role=ConversationRole.WRITER)
        for person in people
        for room in chance.sample(inside, TAKEN_PART_IN)
        if room.owner_id != person.pk
    )
    group = Group.objects.create(team=team, name="Group")
    GroupMember.objects.bulk_create(GroupMember(group=group, user=user) for user in people[:10])
    Participant.objects.bulk_create(
        Participant(conversation=room, group=group, role=ConversationRole.READER)
        for room in chance.sample(inside, SHARED_WITH_GROUP)
    )


def _queue_runs(rooms: list[Conversation], upstream: Upstream) -> None:
    """Answers that wait for their turn, and some that wait for a person, in conversations in which
    their people may write."""
    writers = set(
        Membership.objects.exclude(role=TeamRole.VIEWER).values_list("team_id", "user_id")
    )
    written = [
        room
        for room in rooms
        if (room.team_id, room.owner_id) in writers
        and room.deleted_at is None
        and room.expires_at is None
    ][: QUEUED + QUESTIONS]
    answers = Message.objects.bulk_create(
        Message(conversation=room, role="assistant") for room in written
    )
    runs = Run.objects.bulk_create(
        Run(
            conversation=answer.conversation,
            message=answer,
            upstream=upstream,
            model="bench",
            idempotency_key=uuid.uuid4(),
            requested_by_id=answer.conversation.owner_id,
            status=RunStatus.QUEUED if number < QUEUED else RunStatus.WAITING,
        )
        for number, answer in enumerate(answers)
    )
    Question.objects.bulk_create(
        Question(conversation=run.conversation, run=run, kind=QuestionKind.ASK, ask_id="a")
        for run in runs[QUEUED:]
    )


if __name__ == "__main__":
    print(json.dumps(measure()))
