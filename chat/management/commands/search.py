"""Searches as a person would, for scripts and for questions about what somebody can find."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.translation import gettext

from chat.models import User
from chat.search.find import Hit, Hits, find
from chat.search.tokens import parse


class Command(BaseCommand):
    help = "Print what a person would find, best first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("query", nargs="+")
        parser.add_argument("--user", required=True, metavar="EMAIL")
        parser.add_argument("--limit", type=int, default=20, metavar="N")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        user = User.objects.filter(email__iexact=options["user"], is_active=True).first()
        if user is None:
            raise CommandError(gettext("No active user has this email address."))
        if options["limit"] < 1:
            raise CommandError(gettext("--limit must be at least 1."))
        found = find(user, parse(" ".join(options["query"])), limit=options["limit"])
        if options["json"]:
            self.stdout.write(json.dumps(_as_json(found), ensure_ascii=False))
            return
        for hit in found.hits:
            self.stdout.write(f"{hit.title} · {hit.label} · {hit.author or hit.model}")
            self.stdout.write(f"  {_text(hit)}")
        self.stdout.write(gettext("%(count)d found") % {"count": found.count})


def _as_json(found: Hits) -> dict[str, Any]:
    return {
        "count": found.count,
        "is_count_exact": not found.has_more_than_counted,
        "hits": [
            {
                "conversation": str(hit.conversation),
                "title": hit.title,
                "turn": str(hit.message) if hit.message else None,
                "kind": hit.kind,
                "author": hit.author,
                "model": hit.model,
                "created_at": hit.created_at.isoformat(),
                "snippet": _text(hit),
            }
            for hit in found.hits
        ],
    }


def _text(hit: Hit) -> str:
    return " ".join("".join(mark.text for mark in hit.snippet).split())
