"""Administration of what conversations store beside their text."""

from __future__ import annotations

import base64
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet, Sum
from django.http import Http404, HttpRequest
from django.utils.text import camel_case_to_spaces, capfirst
from django.utils.translation import gettext, gettext_lazy

from chat import access
from chat.access import NOT_HERE
from chat.artifacts.file_rows import reason_of
from chat.core.pictures import read_picture
from chat.models import ArtifactVersion, Conversation, FetchStatus, MockupVersion, StoredFile
from chat.rendering.components import excerpt, name_of
from chat.rendering.figures import size
from chat.web.admin import ReadsConversations, cell, conversation_name, time_column
from chat.web.files import may_be_shown

_CREATED = time_column("created_at", gettext_lazy("Created"))


class KeptAdmin(ReadsConversations):
    """An object of a conversation. It is read under the conversation's rules, and nobody changes
    it."""

    page_template = "admin/chat/files.html"
    ordering = ("-pk",)
    list_filter = ("created_at",)
    # The lookup from the object to its conversation.
    path_to_conversation = "conversation"

    def own_name(self, thing: Any) -> str:
        """The object's own name, which is content."""
        raise NotImplementedError

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        is_readable = access.is_readable(request.user, self.path_to_conversation)
        return super().get_queryset(request).annotate(is_readable=is_readable)

    def detail_of(self, request: HttpRequest, record: Any) -> dict[str, object]:
        # In the audit log a kind has one name, whatever the language of the interface.
        return {camel_case_to_spaces(self.opts.object_name).replace(" ", "_"): record.pk}

    @admin.display(description=gettext_lazy("Name"))
    def name_cell(self, thing: Any) -> str:
        if thing.is_readable:
            return self.own_name(thing) or gettext("Untitled")
        kind = capfirst(self.opts.verbose_name)
        return gettext("%(kind)s %(number)d") % {"kind": kind, "number": thing.pk}

    @admin.display(description=gettext_lazy("Conversation"))
    def conversation_cell(self, thing: Any) -> str:
        return conversation_name(self.conversation_of(thing), is_readable=thing.is_readable)


class ArtifactVersionAdmin(KeptAdmin):
    summary = gettext_lazy("Documents and code created in answers, with all versions.")
    icon = "file-code"
    plural = gettext_lazy("Artifacts")
    list_display = ("name_cell", "number", "language_cell", "conversation_cell", _CREATED)
    path_to_conversation = "artifact__conversation"

    def get_queryset(self, request: HttpRequest) -> QuerySet[ArtifactVersion]:
        rows = super().get_queryset(request).defer("content")
        return rows.select_related("artifact__conversation__owner")

    def conversation_of(self, record: ArtifactVersion) -> Conversation:
        return record.artifact.conversation

    def own_name(self, thing: ArtifactVersion) -> str:
        return cell(thing.title or thing.identifier or thing.artifact.artifact_id)

    @admin.display(description=gettext_lazy("Language"))
    def language_cell(self, version: ArtifactVersion) -> str:
        return cell(version.language or version.content_type or "–")

    def read(self, request: HttpRequest, record: ArtifactVersion) -> dict[str, object]:
        return {
            "name": self.own_name(record) or gettext("Untitled"),
            "facts": [
                (gettext("Version"), str(record.number)),
                (gettext("Language"), self.language_cell(record)),
                (gettext("ID on the server"), cell(record.artifact.artifact_id)),
            ],
            "code": excerpt(record.content, record.language.lower()),
        }


class MockupVersionAdmin(KeptAdmin):
    summary = gettext_lazy("Mockups created in answers, with their files.")
    icon = "layout-template"
    plural = gettext_lazy("Mockups")
    list_display = ("name_cell", "number", "stored", "conversation_cell", _CREATED)
    path_to_conversation = "mockup__conversation"

    def get_queryset(self, request: HttpRequest) -> QuerySet[MockupVersion]:
        rows = super().get_queryset(request).prefetch_related("files__file")
        return rows.select_related("mockup__conversation__owner")

    def conversation_of(self, record: MockupVersion) -> Conversation:
        return record.mockup.conversation

    def own_name(self, thing: MockupVersion) -> str:
        return cell(thing.title or thing.identifier or thing.mockup.bundle_id)

    @admin.display(description=gettext_lazy("Files"))
    def stored(self, version: MockupVersion) -> str:
        files = list(version.files.all())
        stored = sum(file.status == FetchStatus.STORED for file in files)
        return gettext("%(stored)d of %(total)d") % {"stored": stored, "total": len(files)}

    def read(self, request: HttpRequest, record: MockupVersion) -> dict[str, object]:
        files = list(record.files.all())
        held = record.files.aggregate(total=Sum("file__size_bytes"))["total"] or 0
        return {
            "name": self.own_name(record) or gettext("Untitled"),
            "facts": [
                (gettext("Version"), str(record.number)),
                (gettext("Files"), self.stored(record)),
                (gettext("Stored"), size(held)),
                (gettext("ID on the server"), cell(record.mockup.bundle_id)),
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
        """Leaves out files that projects share: the access rules here are those of a conversation."""
        rows = super().get_queryset(request).filter(conversation__isnull=False)
        return rows.select_related("conversation__owner", "created_by")

    def conversation_of(self, record: StoredFile) -> Conversation:
        if record.conversation is None:
            raise Http404(NOT_HERE)
        return record.conversation

    def own_name(self, thing: StoredFile) -> str:
        return cell(thing.name)

    @admin.display(description=gettext_lazy("Size"), ordering="size_bytes")
    def size_cell(self, file: StoredFile) -> str:
        return size(file.size_bytes)

    def read(self, request: HttpRequest, record: StoredFile) -> dict[str, object]:
        body = record.body
        facts = read_picture(body)
        shown: dict[str, object] = {}
        if facts and may_be_shown(facts):
            data = base64.b64encode(body).decode()
            shown = {"picture": f"data:{facts.media_type};base64,{data}"}
        elif (text := _text_of(body)) is not None:
            shown = {"code": excerpt(text)}
        return {
            "name": self.own_name(record) or gettext("Untitled"),
            "facts": [
                (gettext("Declared type"), cell(record.media_type)),
                (gettext("Size"), self.size_cell(record)),
                ("SHA-256", record.sha256),
                (gettext("Attached by"), cell(record.created_by) if record.created_by else "–"),
            ],
            **shown,
        }


def _text_of(body: bytes) -> str | None:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text
