"""Every text of every record set to something hostile, whatever records and fields there will be."""

from __future__ import annotations

import itertools
import json
import os

# Forty, each short enough for most fields whole; what is longer is cut as a form would cut it.
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


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "project.settings")
    import django

    django.setup()
    print(json.dumps(make()))


def make() -> dict[str, object]:
    """Prints what `tests.admin.in_browser` needs: a session, and the addresses that show the rows."""
    from django.conf import settings
    from django.test import Client

    from chat.models import User

    ada = User.objects.create_user(
        "ada@example.org", None, name="Ada", is_staff=True, is_superuser=True
    )
    for number in range(len(PAYLOADS)):
        _rows(number)
    _fill(ada.pk)
    client = Client()
    client.force_login(ada, backend=settings.AUTHENTICATION_BACKENDS[0])
    session = client.cookies[settings.SESSION_COOKIE_NAME].value
    return {"session": session, "pages": _pages()}


def _rows(number: int) -> None:
    """One of each record, their texts still harmless."""
    from datetime import timedelta

    from django.utils import timezone

    from chat import models
    from tests.admin.conversations import answer, ask

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
    models.Question.objects.create(
        conversation=room, run=run, kind=models.QuestionKind.values[0], ask_id=name
    )
    file = models.StoredFile.objects.create(
        conversation=room, name=name, body=payload.encode(), created_by=user
    )
    models.AnswerFile.objects.create(run=run, file=file, item=0)
    made = models.Artifact.objects.create(conversation=room, artifact_id=name)
    models.ArtifactVersion.objects.create(artifact=made, number=1, run=run, seq=1)
    mockup = models.Mockup.objects.create(conversation=room, bundle_id=name, upstream=upstream)
    version = models.MockupVersion.objects.create(mockup=mockup, number=1, run=run, seq=1)
    models.MockupFile.objects.create(version=version, path=name, file=file)


# Not words of anybody: written by the application alone, or decided by a closed set.
OURS = {"token_hash", "sha256", "sealed_key", "sealed_options", "password", "boot", "cache_key"}


def _fill(but: int) -> None:
    """Each text of the records gets each payload once, in one record after the other."""
    from django.apps import apps
    from django.db.models import CharField, JSONField, Model, TextField

    for model in apps.get_app_config("chat").get_models():
        texts = [
            field
            for field in model._meta.concrete_fields
            if isinstance(field, CharField | TextField | JSONField)
            and not field.choices
            and field.name not in OURS
        ]
        rows: list[Model] = list(model._default_manager.order_by("pk"))
        if model.__name__ == "User":
            rows = [row for row in rows if row.pk != but]
        for number, row in enumerate(rows):
            for field, place in zip(texts, itertools.count(number), strict=False):
                text = PAYLOADS[place % len(PAYLOADS)]
                value: object = {text: [text, {"name": text}]}
                if not isinstance(field, JSONField):
                    value = f"{number} {text}" if field.unique else text
                    value = value[: field.max_length] if field.max_length else value
                elif field.get_default() == []:
                    value = _list(field.name, text)
                model._default_manager.filter(pk=row.pk).update(**{field.name: value})


def _list(name: str, text: str) -> list[object]:
    if name == "notes":
        return [text]
    return [{"id": text, "label": text, "name": text, "path": text}]


def _pages() -> list[str]:
    from django.urls import reverse

    from chat.admin.registry import REGISTRY

    lists, rows = [reverse("admin:index")], []
    for model, _ in REGISTRY:
        name = model.__name__.lower()
        lists.append(reverse(f"admin:chat_{name}_changelist"))
        # A list shows all of them; by themselves some are looked at, each with other payloads.
        keys = list(model._default_manager.order_by("pk").values_list("pk", flat=True))
        for key in keys[:: max(1, len(keys) // 6)]:
            rows.append(reverse(f"admin:chat_{name}_change", args=[key]))
    return [*lists, *rows]


if __name__ == "__main__":
    main()
