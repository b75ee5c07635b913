"""The audit trail: rows that nobody changes."""

from __future__ import annotations

import json

from django.contrib import admin
from django.utils.html import format_html
from django.utils.safestring import SafeString

from chat.admin.base import AdministratorsOnly, cell
from chat.models import AuditEvent


class AuditEventAdmin(AdministratorsOnly):
    summary = "Who did what to whose, and when. Rows are only ever added."
    list_display = ("at", "actor_cell", "verb", "subject_cell", "target_cell", "detail_cell")
    list_filter = ("verb", "at")
    list_select_related = ("actor", "subject")
    search_fields = (
        "verb",
        "target",
        "actor__name",
        "actor__email",
        "subject__name",
        "subject__email",
    )
    date_hierarchy = "at"
    ordering = ("-pk",)
    fields = ("at", "actor", "verb", "subject", "target", "detail_text")

    @admin.display(description="who", ordering="actor__name")
    def actor_cell(self, event: AuditEvent) -> str:
        return cell(event.actor) if event.actor else "–"

    @admin.display(description="whose", ordering="subject__name")
    def subject_cell(self, event: AuditEvent) -> str:
        return cell(event.subject) if event.subject else "–"

    @admin.display(description="what", ordering="target")
    def target_cell(self, event: AuditEvent) -> str:
        return cell(event.target)

    @admin.display(description="detail")
    def detail_cell(self, event: AuditEvent) -> str:
        return cell(json.dumps(event.detail, ensure_ascii=False)) if event.detail else ""

    @admin.display(description="detail")
    def detail_text(self, event: AuditEvent) -> SafeString:
        text = json.dumps(event.detail, ensure_ascii=False, indent=2)
        return format_html('<pre class="json">{}</pre>', text)
