from __future__ import annotations

import re
import uuid
from datetime import timedelta

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from lxml import html

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
from tests.admin.conversations import answer, ask

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
OWN_TAGS = {"script", "link", "meta", "style", "iframe", "object", "embed", "base", "form", "img"}


@pytest.fixture(params=HOSTILE, ids=range(len(HOSTILE)))
def planted(request: pytest.FixtureRequest, db: None) -> list[str]:
    """Every text of every record set to one hostile string; the addresses that show them."""
    return plant(request.param)


def plant(text: str) -> list[str]:
    user = User.objects.create(email="mallory@example.org", name=text[:80])
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
    rows = {
        "conversation": conversation,
        "run": run,
        "user": user,
        "team": team,
        "upstream": upstream,
        "invitation": invitation,
        "auditevent": event,
    }
    return [
        reverse("admin:index"),
        reverse("admin:chat_runner_change", args=[runner.pk]),
        reverse("admin:chat_runner_changelist"),
        *(reverse(f"admin:chat_{name}_changelist") for name in rows),
        *(reverse(f"admin:chat_{name}_change", args=[row.pk]) for name, row in rows.items()),
        *(reverse(f"admin:chat_{name}_history", args=[row.pk]) for name, row in rows.items()),
    ]


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


def test_hostile_text_is_inert_on_every_page(planted: list[str], admin_client: Client) -> None:
    for address in planted:
        response = admin_client.get(address)
        assert response.status_code == 200, address
        assert dangers(response.content.decode()) == [], address


def dangers(page: str) -> list[str]:
    """What a browser would run, load or send because of somebody else's text."""
    document = html.document_fromstring(page)
    found = []
    for element in document.iter(html.etree.Element):
        found += [
            f"{element.tag} {name}"
            for name, value in element.attrib.items()
            if name.startswith(("on", "hx-", "data-hx")) or name in ("style", "srcdoc")
        ]
        found += [
            f"{element.tag} {name}={value}"
            for name, value in element.attrib.items()
            if name in ("href", "src", "action", "formaction", "xlink:href")
            and not _is_our_address(element.tag, value)
        ]
        if element.tag in OWN_TAGS and (element.text or "").strip():
            found.append(f"{element.tag}: {element.text[:60]}")
        if element.tag == "meta" and element.get("http-equiv"):
            found.append("meta refresh")
        if element.tag in ("iframe", "object", "embed", "base", "style"):
            found.append(element.tag)
    return found


def _is_our_address(tag: str, value: str) -> bool:
    if tag == "a" and re.match(r"https?://", value):
        return True  # a link in an answer: followed only by a click
    return value.startswith(("/", "?", "#", ".")) and not value.startswith("//")


def test_the_check_finds_what_it_is_made_for() -> None:
    for text in ("<script>x</script>", "<img src=x onerror=y>", '<a href="javascript:x">y</a>'):
        assert dangers(f"<html><body>{text}</body></html>")
