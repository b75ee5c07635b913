"""Hostile text in every text field of every model, including models that are added later."""

from __future__ import annotations

import itertools
from datetime import timedelta

from django.apps import apps
from django.db.models import CharField, JSONField, TextField
from django.urls import reverse
from django.utils import timezone

from chat import models
from chat.administration.site import REGISTRY
from tests.administration.conversations import answer, ask
from tests.administration.pages import list_url, row_url
from tests.support.files import store_file
from tests.support.reasons import give_reasons

# Forty, each short enough for most fields; a longer one is cut as a form would cut it.
PAYLOADS = [
    "<script>hit()</script>",
    "<img src=x onerror=hit()>",
    '"><img src=x onerror=hit()>',
    "'><svg/onload=hit()>",
    "</title><script>hit()</script>",
    "</textarea><script>hit()</script>",
    "</pre><script>hit()</script>",
    "</script><script>hit()</script>",
    "</option></select><img src=x onerror=hit()>",
    "--><script>hit()</script>",
    "]]><script>hit()</script>",
    '" autofocus onfocus=hit() x="',
    "' onmouseover=hit() x='",
    "` onclick=hit() x=`",
    "javascript:hit()",
    "JaVaScRiPt:hit()//https://good.test",
    "data:text/html,<script>hit()</script>",
    "[x](javascript:hit())",
    "![x](http://evil.test/a.png)",
    "<javascript:hit()>",
    "<iframe srcdoc='<script>parent.hit()</script>'>",
    "<iframe src=//evil.test/frame>",
    "<object data=//evil.test/object>",
    "<link rel=stylesheet href=//evil.test/x.css>",
    "<style>@import '//evil.test/x.css';</style>",
    "<style>*{display:none}</style>",
    "<meta http-equiv=refresh content='0;url=//evil.test'>",
    "<base href=//evil.test/>",
    "<form action=//evil.test><button autofocus>",
    "<div hx-get=/reached hx-trigger=load>",
    "<div hx-swap-oob=true id=content>x</div>",
    "</hx-partial><hx-partial hx-target=body>",
    "<details open ontoggle=hit()>",
    "<input name=csrfmiddlewaretoken value=x>",
    "<math><mi xlink:href=javascript:hit()>",
    "&lt;script&gt;hit()&lt;/script&gt;",
    "&#60;img src=x onerror=hit()&#62;",
    "{{ 7|add:7 }}{% csrf_token %}${7*7}",
    "%3Cscript%3Ehit()%3C/script%3E",
    "\u202e<script>hit()</script>\u2028",
]


# Written by the application alone.
OWN_FIELDS = {
    "token_hash",
    "sha256",
    "object_name",
    "sealed_key",
    "sealed_options",
    "sealed_headers",
    "sealed_secret",
    "sealed_tokens",
    "sealed_verifier",
    "password",
    "boot",
    "cache_key",
}
# A list shows all rows. So many of each kind are opened as well, each with other payloads.
OPENED_ROWS = 6


def fill(administrator: models.User) -> list[str]:
    """Makes the rows; the pages that show them."""
    for number in range(len(PAYLOADS)):
        _make_rows(number)
    _replace_texts(administrator)
    give_reasons(administrator)
    return _pages()


def _make_rows(number: int) -> None:
    """One of each model, with harmless texts."""
    name = f"r{number}"
    user = models.User.objects.create(email=f"{name}@example.org", name=name)
    team = models.Team.objects.create(name=name)
    models.Membership.objects.create(team=team, user=user, role=models.TeamRole.OWNER)
    upstream = models.Upstream.objects.create(name=name, dialect="lmstudio", base_url="http://x")
    models.SeenEvent.objects.create(upstream=upstream, name=name)
    room = models.Conversation.objects.create(team=team, owner=user, title=name, upstream=upstream)
    runner = models.Runner.objects.create(host=name, pid=1)
    payload = PAYLOADS[number]
    run = answer(ask(room, user, payload), payload, upstream=upstream, model=payload, runner=runner)
    models.Attempt.objects.create(run=run, number=1)
    later = timezone.now() + timedelta(days=1)
    models.Invitation.objects.create(
        team=team, invited_by=user, token_hash=f"i{number}", expires_at=later
    )
    models.AccessToken.objects.create(user=user, team=team, name=name, token_hash=f"t{number}")
    models.AuditEvent.objects.create(actor=user, subject=user, verb=name)
    models.Tool.objects.create(team=team, name=name)
    models.AccessReason.objects.create(kind="open", conversation=room, reason=name)
    models.ConversationChange.objects.record(user, room, models.ChangeKind.RENAMED, name=name)
    models.Question.objects.create(
        conversation=room, run=run, kind=models.QuestionKind.values[0], ask_id=name
    )
    file = store_file(conversation=room, name=name, body=payload.encode(), created_by=user)
    models.AnswerFile.objects.create(run=run, file=file, item=0)
    made = models.Artifact.objects.create(conversation=room, artifact_id=name)
    models.ArtifactVersion.objects.create(artifact=made, number=1, run=run, seq=1)
    mockup = models.Mockup.objects.create(conversation=room, bundle_id=name, upstream=upstream)
    version = models.MockupVersion.objects.create(mockup=mockup, number=1, run=run, seq=1)
    models.MockupFile.objects.create(version=version, path=name, file=file)


def _replace_texts(administrator: models.User) -> None:
    """Each text field gets each payload once, in one row after the other."""
    for model in apps.get_app_config("chat").get_models():
        fields = [
            field
            for field in model._meta.concrete_fields
            if isinstance(field, CharField | TextField | JSONField)
            and not field.choices
            and field.name not in OWN_FIELDS
        ]
        rows = [row for row in model._default_manager.order_by("pk") if row != administrator]
        for number, row in enumerate(rows):
            for field, place in zip(fields, itertools.count(number), strict=False):
                value = _value(field, PAYLOADS[place % len(PAYLOADS)], number)
                model._default_manager.filter(pk=row.pk).update(**{field.name: value})


def _value(field: CharField | TextField | JSONField, text: str, number: int) -> object:
    if not isinstance(field, JSONField):
        value = f"{number} {text}" if field.unique else text
        return value[: field.max_length] if field.max_length else value
    if field.get_default() != []:
        return {text: [text, {"name": text}]}
    if field.name == "notes":
        return [text]
    return [{"id": text, "label": text, "name": text, "path": text}]


def _pages() -> list[str]:
    pages = [reverse("admin:index")]
    pages += [list_url(model._meta.model_name) for model, _ in REGISTRY]
    for model, _ in REGISTRY:
        rows = list(model._default_manager.order_by("pk"))
        pages += map(row_url, rows[:: max(1, len(rows) // OPENED_ROWS)])
    return pages
