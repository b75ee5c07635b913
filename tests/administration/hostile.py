"""Records whose every text is hostile, and the pages that show them."""

from __future__ import annotations

import uuid
from datetime import timedelta

from django.db.models import Model
from django.urls import reverse
from django.utils import timezone

from chat import events
from chat.models import (
    Attempt,
    AuditEvent,
    Conversation,
    Invitation,
    Membership,
    Run,
    Runner,
    Team,
    TeamRole,
    Upstream,
    User,
)
from tests.administration.conversations import answer, ask
from tests.administration.pages import list_url, row_url
from tests.support.reasons import give_reasons

# Short fields hold the beginning of each; the long ones all of it.
HOSTILE = [
    "<script>alert(1)</script></title><script>alert(2)</script>",
    '"><img src=x onerror=alert(1)>![x](http://evil.example/track.png)',
    "</pre></textarea></style><svg onload=alert(1)><style>*{display:none}</style>",
    'javascript:alert(1) [x](javascript:alert(1)) <a href="javascript:alert(1)">x</a>',
    "{{ 7|add:7 }}{% csrf_token %}</hx-partial><hx-partial hx-target=body>",
    '<div hx-get="/admin/" hx-trigger="load" hx-swap-oob="true">',
    "<iframe srcdoc='<script>alert(1)</script>'>",
    '<meta http-equiv="refresh" content="0;url=//evil.example">',
]


def plant(text: str) -> list[Model]:
    """Makes a row of each kind with this text in all of its fields."""
    user = User.objects.create(email=f"{uuid.uuid4().hex}@example.org", name=text[:80])
    team = Team.objects.create(name=text[:80])
    Membership.objects.create(team=team, user=user, role=TeamRole.OWNER)
    upstream = Upstream.objects.create(
        name=text[:80],
        dialect=text[:40],
        base_url=text,
        created_by=user,
        model_list=[{"id": text, "label": text}],
    )
    conversation = Conversation.objects.create(
        team=team, owner=user, title=text, system_prompt=text, model=text, upstream=upstream
    )
    runner = Runner.objects.create(host=text, pid=1)
    run = _run(conversation, user, upstream, runner, text)
    invitation = Invitation.objects.create(
        team=team,
        invited_by=user,
        email=text,
        token_hash=uuid.uuid4().hex,
        expires_at=timezone.now() + timedelta(days=1),
    )
    event = AuditEvent.objects.create(
        actor=user, subject=user, verb=text[:60], target=text, detail={text: text}
    )
    return [conversation, run, user, team, upstream, invitation, event, runner]


def _run(
    conversation: Conversation, user: User, upstream: Upstream, runner: Runner, text: str
) -> Run:
    before: list[events.Event] = [
        events.ReasoningStart(item=0),
        events.ReasoningDelta(item=0, content=text),
        events.ReasoningEnd(item=0),
        events.ToolCallStart(item=1, tool=text, executes="upstream"),
        events.ToolCallArguments(item=1, tool=text, arguments={text: text}),
        events.ToolCallSuccess(item=1, tool=text, arguments={text: text}, output=text),
        events.Error(error=events.ErrorInfo(kind="server", message=text, code=text)),
    ]
    run = answer(
        ask(conversation, user, text),
        f"{text}\n\n{text}",
        upstream=upstream,
        model=text,
        status="failed",
        before=before,
        notes=[text],
        parameters={text: text},
        system_prompt=text,
        runner=runner,
        stop_requested_by=user,
    )
    Run.objects.filter(pk=run.pk).update(error_kind=text[:20], error_message=text)
    Attempt.objects.create(
        run=run, number=1, outcome=text[:20], error_kind=text[:20], error_message=text
    )
    return run


def list_urls(rows: list[Model]) -> list[str]:
    """The front page, and the list of each kind of row."""
    models = dict.fromkeys(row._meta.model_name for row in rows)
    return [reverse("admin:index"), *map(list_url, models)]


def row_urls(rows: list[Model]) -> list[str]:
    return [
        *(row_url(row) for row in rows),
        *(row_url(row, "history") for row in rows if isinstance(row, User | Team)),
    ]


def fill(administrator: User) -> list[str]:
    """One row of each kind that holds all of it; the pages that show them, to an administrator who has
    reasons to read."""
    rows = plant(" ".join(HOSTILE))
    give_reasons(administrator)
    return [*list_urls(rows), *row_urls(rows)]
