"""The people who may use the tools of a server: everybody of the team, or some of its groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.db import transaction
from django.utils.translation import gettext, gettext_lazy

from chat.core.errors import ActionRefused, storage_errors
from chat.models import AuditEvent, Group, ToolServer, User


class ServerPeopleForm(forms.Form):
    """Everybody, or the groups that are checked."""

    is_for_groups = forms.BooleanField(
        label=gettext_lazy("Only some groups may use its tools"), required=False
    )
    groups = forms.ModelMultipleChoiceField(
        label=gettext_lazy("Groups"),
        queryset=Group.objects.none(),
        to_field_name="public_id",
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )

    def __init__(self, data: Any = None, *, server: ToolServer) -> None:
        groups = server.groups.values_list("public_id", flat=True) if server.pk else ()
        initial = {"is_for_groups": server.is_for_groups, "groups": list(groups)}
        super().__init__(data, initial=initial, label_suffix="")
        self.fields["groups"].queryset = server.team.groups.all()


def set_people(
    user: User, server: ToolServer, *, is_for_groups: bool, groups: Sequence[Group]
) -> None:
    """From the next message and the next call on. A server whose groups are all deleted is for nobody."""
    if any(group.team_id != server.team_id for group in groups):
        raise ActionRefused(gettext("Some of these groups belong to another team."))
    if is_for_groups and not groups:
        raise ActionRefused(gettext("Choose at least one group."))
    with storage_errors(), transaction.atomic():
        ToolServer.objects.filter(pk=server.pk).update(is_for_groups=is_for_groups)
        server.groups.set(groups if is_for_groups else [])
        AuditEvent.objects.record(
            user,
            "tool_server.changed",
            target=server.team.name,
            server=server.name,
            groups=[group.name for group in groups] if is_for_groups else "",
        )
