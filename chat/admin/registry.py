"""The records that the admin shows."""

from __future__ import annotations

from django.contrib import admin
from django.db.models import Model

from chat.admin.audit import AuditEventAdmin
from chat.admin.files import ArtifactVersionAdmin, MockupVersionAdmin, StoredFileAdmin
from chat.admin.history import ConversationAdmin
from chat.admin.people import InvitationAdmin, TeamAdmin, UserAdmin
from chat.admin.runs import RunAdmin, RunnerAdmin
from chat.admin.tokens import AccessTokenAdmin
from chat.admin.upstreams import UpstreamAdmin
from chat.models import (
    AccessToken,
    ArtifactVersion,
    AuditEvent,
    Conversation,
    Invitation,
    MockupVersion,
    Run,
    Runner,
    StoredFile,
    Team,
    Upstream,
    User,
)

Rows = tuple[tuple[type[Model], type[admin.ModelAdmin]], ...]

GROUPS: tuple[tuple[str, Rows], ...] = (
    (
        "History",
        ((Conversation, ConversationAdmin), (Run, RunAdmin), (AuditEvent, AuditEventAdmin)),
    ),
    (
        "Files",
        (
            (StoredFile, StoredFileAdmin),
            (ArtifactVersion, ArtifactVersionAdmin),
            (MockupVersion, MockupVersionAdmin),
        ),
    ),
    (
        "People",
        (
            (User, UserAdmin),
            (Team, TeamAdmin),
            (Invitation, InvitationAdmin),
            (AccessToken, AccessTokenAdmin),
        ),
    ),
    ("Servers", ((Upstream, UpstreamAdmin), (Runner, RunnerAdmin))),
)
REGISTRY: Rows = tuple(row for _, rows in GROUPS for row in rows)
