"""Administration of what conversations store beside their text. The lists name the objects; opening
one is recorded in the audit log."""

from __future__ import annotations

import base64
from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Model, QuerySet, Sum
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.utils.text import camel_case_to_spaces, capfirst
from django.utils.translation import gettext, gettext_lazy

from chat.access import NOT_HERE
from chat.artifacts.file_rows import reason_of
from chat.core.pictures import read_picture
from chat.models import ArtifactVersion, Conversation, FetchStatus, MockupVersion, StoredFile
from chat.rendering.components import excerpt, name_of
from chat.rendering.figures import size
from chat.web import admin as history
from chat.web.admin import AdministratorsOnly, cell, object_key, time_column
from chat.web.files import may_be_shown

_CREATED = time_column("created_at", gettext_lazy("Created"))


class KeptAdmin(AdministratorsOnly):
    """An object of a conversation. It is read under the conversation's rules, and nobody changes
    it."""

    ordering = ("-pk",)
    list_filter = ("created_at",)

    def conversation_of(self, thing: Any) -> Conversation:
        """The conversation of the object, known without reading its content. Raises ``Http404``."""
        raise NotImplementedError

    def facts_of(self, thing: Any) -> dict[str, object]:
        """What the page shows: ``name``, ``facts`` (label and value), and the content."""
        raise NotImplementedError

    def changeform_view(
        self,
        request: HttpRequest,
        object_id: str | None = None,
        form_url: str = "",
        extra_context: dict[str, object] | None = None,
    ) -> HttpResponse:
        """Shows the object itself instead of a form."""
        if object_id is None or not self.has_view_permission(request):
            raise PermissionDenied
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        thing = self.get_queryset(request).filter(pk=object_key(object_id)).first()
        if thing is None:
            raise Http404(NOT_HERE)
        conversation = self.conversation_of(thing)
        # In the audit log a kind has one name, whatever the language of the interface.
        kind = camel_case_to_spaces(self.opts.object_name).replace(" ", "_")
        with history.reading(request.user, conversation, **{kind: thing.pk}):
            facts = self.facts_of(thing)
        context = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "list_name": self.list_name,
            "title": capfirst(self.opts.verbose_name),
            "conversation": conversation,
            **facts,
            **(extra_context or {}),
        }
        response = TemplateResponse(request, "admin/chat/files.html", context)
        response["Cache-Control"] = "no-store"
        return response

    @admin.display(description=gettext_lazy("Conversation"))
    def conversation_cell(self, thing: Model) -> str:
        return cell(self.conversation_of(thing))


class ArtifactVersionAdmin(KeptAdmin):
    summary = gettext_lazy("Documents and code created in answers, with all versions.")
    icon = "file-code"
    plural = gettext_lazy("Artifacts")
    list_display = ("name_cell", "number", "language_cell", "conversation_cell", _CREATED)
    list_select_related = ("artifact__conversation__owner",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ArtifactVersion]:
        rows = super().get_queryset(request).defer("content")
        return rows.select_related("artifact__conversation__owner")

    def conversation_of(self, thing: ArtifactVersion) -> Conversation:
        return thing.artifact.conversation

    @admin.display(description=gettext_lazy("Title"))
    def name_cell(self, version: ArtifactVersion) -> str:
        return cell(version.title or version.identifier or version.artifact.artifact_id)

    @admin.display(description=gettext_lazy("Language"))
    def language_cell(self, version: ArtifactVersion) -> str:
        return cell(version.language or version.content_type or "–")

    def facts_of(self, thing: ArtifactVersion) -> dict[str, object]:
        return {
            "name": self.name_cell(thing) or gettext("Untitled"),
            "facts": [
                (gettext("Version"), str(thing.number)),
                (gettext("Language"), self.language_cell(thing)),
                (gettext("ID on the server"), cell(thing.artifact.artifact_id)),
            ],
            "code": excerpt(thing.content, thing.language.lower()),
        }


class MockupVersionAdmin(KeptAdmin):
    summary = gettext_lazy("Mockups created in answers, with their files.")
    icon = "layout-template"
    plural = gettext_lazy("Mockups")
    list_display = ("name_cell", "number", "stored", "conversation_cell", _CREATED)

    def get_queryset(self, request: HttpRequest) -> QuerySet[MockupVersion]:
        rows = super().get_queryset(request).prefetch_related("files__file")
        return rows.select_related("mockup__conversation__owner")

    def conversation_of(self, thing: MockupVersion) -> Conversation:
        return thing.mockup.conversation

    @admin.display(description=gettext_lazy("Title"))
    def name_cell(self, version: MockupVersion) -> str:
        return cell(version.title or version.identifier or version.mockup.bundle_id)

    @admin.display(description=gettext_lazy("Files"))
    def stored(self, version: MockupVersion) -> str:
        files = list(version.files.all())
        stored = sum(file.status == FetchStatus.STORED for file in files)
        return gettext("%(stored)d of %(total)d") % {"stored": stored, "total": len(files)}

    def facts_of(self, thing: MockupVersion) -> dict[str, object]:
        files = list(thing.files.all())
        held = thing.files.aggregate(total=Sum("file__size_bytes"))["total"] or 0
        return {
            "name": self.name_cell(thing) or gettext("Untitled"),
            "facts": [
                (gettext("Version"), str(thing.number)),
                (gettext("Files"), self.stored(thing)),
                (gettext("Stored"), size(held)),
                (gettext("ID on the server"), cell(thing.mockup.bundle_id)),
            ],
            "files": [
                (name_of(file.path), file.file_id, reason_of(file) or file.get_status_display())
                for file in files
            ],
        }


class StoredFileAdmin(KeptAdmin):
    summary = gettext_lazy("Attached images, and files from answers.")
    icon = "file"
    list_display = ("name_cell", "media_type", "size_cell", "conversation_cell", _CREATED)

    def get_queryset(self, request: HttpRequest) -> QuerySet[StoredFile]:
        """Not those that projects share: what is read here is read under the rules of a conversation."""
        rows = super().get_queryset(request).filter(conversation__isnull=False)
        return rows.select_related("conversation__owner", "created_by")

    def conversation_of(self, thing: StoredFile) -> Conversation:
        if thing.conversation is None:
            raise Http404(NOT_HERE)
        return thing.conversation

    @admin.display(description=gettext_lazy("Conversation"))
    def conversation_cell(self, thing: StoredFile) -> str:  # type: ignore[override]
        return cell(thing.conversation) if thing.conversation else "–"

    @admin.display(description=gettext_lazy("Name"), ordering="name")
    def name_cell(self, file: StoredFile) -> str:
        return cell(file.name) or gettext("Untitled")

    @admin.display(description=gettext_lazy("Size"), ordering="size_bytes")
    def size_cell(self, file: StoredFile) -> str:
        return size(file.size_bytes)

    def facts_of(self, thing: StoredFile) -> dict[str, object]:
        body = thing.body
        facts = read_picture(body)
        shown: dict[str, object] = {}
        if facts and may_be_shown(facts):
            data = base64.b64encode(body).decode()
            shown = {"picture": f"data:{facts.media_type};base64,{data}"}
        elif (text := _text_of(body)) is not None:
            shown = {"code": excerpt(text)}
        return {
            "name": self.name_cell(thing),
            "facts": [
                (gettext("Declared type"), cell(thing.media_type)),
                (gettext("Size"), self.size_cell(thing)),
                ("SHA-256", thing.sha256),
                (gettext("Attached by"), cell(thing.created_by) if thing.created_by else "–"),
            ],
            **shown,
        }


def _text_of(body: bytes) -> str | None:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text
