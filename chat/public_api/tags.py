"""The example of an API call on the page of access tokens."""

from __future__ import annotations

import json
import shlex

from django import template
from django.conf import settings
from django.template import Context

from chat.public_api.catalogue import offers

register = template.Library()

MODEL_KEY = "the-key-of-a-model"


@register.inclusion_tag("public_api/_token_usage.html", takes_context=True)
def api_example(context: Context) -> dict[str, str]:
    """The base URL, and a call with the first model that the person may use."""
    offered = offers(context["user"])
    body = json.dumps(
        {"model": offered[0].key if offered else MODEL_KEY, "input": "Hello!"}, ensure_ascii=False
    )
    address = f"{settings.SITE_URL}/api/v1/chat"
    lines = [
        f"curl {shlex.quote(address)}",
        '-H "Authorization: Bearer $TRIBUTARY_TOKEN"',
        "-H 'Content-Type: application/json'",
        f"-d {shlex.quote(body)}",
    ]
    return {"base_url": settings.SITE_URL, "example": " \\\n  ".join(lines)}
