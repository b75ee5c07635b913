"""What a Tributary of the benchmark holds, and what it has stored: in a process with its settings.

``python -m tests.bench.load.site seed UPSTREAM_URL PEOPLE CONVERSATIONS`` makes the tables, a team,
an upstream, people with a session each, and conversations for each of them; it prints them as JSON.
``… results`` reads run ids, one a line, and prints what each run was and the marks in its text.
``… room SESSION TURNS`` writes a conversation of so many turns of that person, and prints its id.
"""

import json
import os
import sys
import uuid
import zlib
from typing import Any

MODEL = "acme/river-8b"


def main(verb: str, *arguments: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    verbs = {"seed": seed, "results": results, "room": room}
    print(json.dumps(verbs[verb](*arguments)))


def seed(upstream_url: str, people: str, conversations: str) -> dict[str, Any]:
    from django.core.management import call_command
    from django.db import connection

    from chat.models import (
        Conversation,
        Membership,
        Message,
        Role,
        Team,
        TeamRole,
        Upstream,
        User,
        UserSession,
        Visibility,
    )
    from tests.support.processes.seed import sign_in

    call_command("migrate", verbosity=0)
    team = Team.objects.create(name="River")
    upstream = Upstream.objects.create(
        name="Bench",
        dialect="openai_chat",
        base_url=f"{upstream_url}/v1",
        concurrency_limit=100_000,
        model_list=[{"id": MODEL, "label": "River", "detail": {}, "is_typed": False}],
    )
    users = [
        User.objects.create_user(f"person{number}@example.org", None, name=f"Person {number}")
        for number in range(int(people))
    ]
    Membership.objects.bulk_create(
        Membership(team=team, user=user, role=TeamRole.MEMBER) for user in users
    )
    rooms = Conversation.objects.bulk_create(
        Conversation(
            public_id=uuid.uuid4(),
            team=team,
            owner=user,
            visibility=Visibility.PRIVATE,
            title=f"Conversation {number}",
            upstream=upstream,
            model=MODEL,
        )
        for number in range(int(conversations))
        for user in users
    )
    # One turn and its answer, as in a conversation that goes on. The planner of PostgreSQL would take
    # tables without such rows for small ones, and read them from end to end.
    asked = Message.objects.bulk_create(
        Message(conversation=room, role=Role.USER, author=room.owner, text="Hello")
        for room in rooms
    )
    answered = Message.objects.bulk_create(
        Message(conversation=message.conversation, parent=message, role=Role.ASSISTANT)
        for message in asked
    )
    _end_answers(answered, upstream)
    if connection.vendor == "postgresql":
        # As autovacuum does within a minute; until then plans are those of empty tables.
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
    seeded = [
        {
            "id": str(answer.conversation.public_id),
            "first": answer.parent.public_id.hex,
            "tail": answer.public_id.hex,
            "head": _head_mark(answer.conversation),
        }
        for answer in answered
    ]
    sessions = [sign_in(user) for user in users]
    # A sign-in makes these rows, so that the first message in a session only notes its use.
    UserSession.objects.bulk_create(
        UserSession(user=user, session_key=key) for user, key in zip(users, sessions, strict=True)
    )
    return {
        "choice": f"{upstream.public_id.hex}:{MODEL}",
        "sessions": sessions,
        # One list for each person.
        "conversations": [seeded[number :: len(users)] for number in range(len(users))],
    }


def _end_answers(answers: list[Any], upstream: Any) -> None:
    """Ends each of these answers yesterday, as runners and compaction leave them."""
    from datetime import timedelta

    from django.utils import timezone

    from chat import events
    from chat.models import Attempt, Run, RunSegment, RunStatus
    from chat.result import Fold, close_open
    from chat.runs.outcomes import columns_of

    yesterday = timezone.now() - timedelta(days=1)
    log = _log_of("Hello! How can I help?")
    fold = Fold()
    fold.extend(log)
    log += close_open(fold, "stopped")
    for seq, event in enumerate(log, start=1):
        event.seq = seq
    columns = columns_of(log[-1]) | {"status": RunStatus.COMPLETED, "finished_at": yesterday}
    body = zlib.compress(events.join_bodies(events.encode(event) for event in log))
    runs = Run.objects.bulk_create(
        Run(
            conversation=answer.conversation,
            message=answer,
            upstream=upstream,
            dialect="openai_chat",
            model=MODEL,
            requested_by=answer.conversation.owner,
            idempotency_key=uuid.uuid4(),
            queued_at=yesterday,
            claimed_at=yesterday,
            **columns,
        )
        for answer in answers
    )
    Attempt.objects.bulk_create(
        Attempt(run=run, number=1, started_at=yesterday, outcome="accepted") for run in runs
    )
    RunSegment.objects.bulk_create(
        RunSegment(run=run, first_seq=1, last_seq=len(log), is_compressed=True, body=body)
        for run in runs
    )


def _log_of(text: str) -> list[Any]:
    from chat import events

    return [
        events.ChatStart(model_instance_id=MODEL, dialect="openai_chat"),
        events.MessageStart(item=0),
        events.MessageDelta(item=0, content=text),
        events.MessageEnd(item=0),
    ]


def _head_mark(conversation: Any) -> str:
    """As the page of a new conversation says it."""
    from chat import access
    from chat.conversations.page import head_mark
    from chat.files.file_counts import has_no_files

    has_no_files(conversation)
    return head_mark(conversation, access.context_of(conversation.owner, conversation))


def room(session: str, turns: str) -> str:
    from django.contrib.sessions.backends.db import SessionStore
    from django.db import transaction

    from chat.conversations.actions.messages import ModelChoice, send_message
    from chat.models import Conversation, Run, RunStatus, Upstream, User
    from chat.result import Fold, close_open
    from chat.runs.outcomes import write_ending

    answers = [f"Answer {number}.\n\n{PARAGRAPHS}" for number in range(int(turns) // 2)]
    person = User.objects.get(pk=SessionStore(session)["_auth_user_id"])
    upstream = Upstream.objects.get()
    membership = person.memberships.get()
    conversation = Conversation.objects.create(
        team=membership.team,
        owner=person,
        title=f"{len(answers)} answers",
        upstream=upstream,
        model=MODEL,
    )
    last = None
    with transaction.atomic():
        for number, text in enumerate(answers):
            run = send_message(
                person,
                conversation,
                parent=last,
                text=f"Question {number} about rivers, and where they rise?",
                choice=ModelChoice(upstream=upstream, model=MODEL),
                idempotency_key=uuid.uuid4(),
            )
            log = _log_of(text)
            fold = Fold()
            fold.extend(log)
            write_ending(run, [*log, *close_open(fold, "stopped")], after=0)
            Run.objects.filter(pk=run.pk).update(status=RunStatus.COMPLETED)
            last = run.message
    return str(conversation.public_id)


PARAGRAPHS = (
    "The *river* is **high** today, and the `mill` stands still below it.\n\n"
    "- a spring\n- a lake\n- the melting snow\n\n"
) * 3


def results() -> dict[str, dict[str, Any]]:
    """Status and text of each run named on standard input."""
    from chat.models import Run
    from tests.bench.load.marks import numbers_in

    wanted = sys.stdin.read().split()
    found: dict[str, dict[str, Any]] = {}
    for run in Run.objects.filter(public_id__in=wanted).iterator(chunk_size=100):
        output = json.loads(run.result or "{}").get("output", [])
        text = "".join(item.get("content", "") for item in output if item["type"] == "message")
        found[run.public_id.hex] = {"status": run.status, "numbers": numbers_in(text)}
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
