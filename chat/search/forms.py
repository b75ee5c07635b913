"""The controls of the search page, which stand for the filters of a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext, gettext_lazy

from chat import access
from chat.models import User
from chat.search.tokens import HAS, QUERY_CHARACTERS, STATES, Query, name_key

HAS_LABELS = {
    "file": gettext_lazy("File"),
    "image": gettext_lazy("Image"),
    "artifact": gettext_lazy("Artifact"),
    "question": gettext_lazy("Question"),
    "tool": gettext_lazy("Tool call"),
    "error": gettext_lazy("Error"),
}
STATE_LABELS = {
    "pinned": gettext_lazy("Pinned"),
    "archived": gettext_lazy("Archived"),
    "shared": gettext_lazy("Shared"),
}
Choices = list[tuple[str, Any]]
# The form offers at most this many people, by name; others can be typed.
MOST_PEOPLE = 500
AT_ONCE = {"data-submit": True}


class SearchForm(forms.Form):
    """Shows a query; it is never bound. `chat.search.views.query_of` reads the request."""

    use_required_attribute = False

    def __init__(self, user: User, query: Query) -> None:
        super().__init__(auto_id="search-%s")
        servers = list(access.usable_upstreams(user))
        people = [str(person) for person in access.people_of_teams(user)[:MOST_PEOPLE]]
        names = [server.name for server in servers]
        by_server: Choices = [
            (server.name, _named(entry["id"] for entry in server.model_list)) for server in servers
        ]
        self.fields["q"] = forms.CharField(
            initial=query.words, max_length=QUERY_CHARACTERS, label=gettext("Search")
        )
        self.fields["from"] = _choice(
            gettext("From"), gettext("Anyone"), [("", _named(people))], query.person
        )
        projects = [project.name for project in access.visible_projects(user)]
        self.has_projects = bool(projects or query.project)
        self.fields["in"] = _choice(
            gettext("Project"), gettext("Any project"), [("", _named(projects))], query.project
        )
        self.fields["model"] = _choice(
            gettext("Model"), gettext("Any model"), by_server, query.model
        )
        self.fields["server"] = _choice(
            gettext("Server"), gettext("Any server"), [("", _named(names))], query.server
        )
        self.fields["after"] = _day(gettext("On or after"), query.after)
        self.fields["before"] = _day(gettext("Before"), query.before)
        self.fields["has"] = forms.MultipleChoiceField(
            label=gettext("Has"),
            choices=[(name, HAS_LABELS[name]) for name in HAS],
            initial=sorted(query.has),
            widget=forms.CheckboxSelectMultiple(attrs=AT_ONCE),
        )
        self.fields["is"] = forms.MultipleChoiceField(
            label=gettext("Is"),
            choices=[(name, STATE_LABELS[name]) for name in STATES],
            initial=sorted(query.states),
            widget=forms.CheckboxSelectMultiple(attrs=AT_ONCE),
        )

    @property
    def selects(self) -> list[tuple[forms.BoundField, str]]:
        """Each with its icon."""
        icons = {"from": "user", "in": "folder", "model": "sparkles", "server": "server"}
        if not self.has_projects:
            del icons["in"]
        return [(self[name], icon) for name, icon in icons.items()]

    @property
    def days(self) -> list[forms.BoundField]:
        return [self["after"], self["before"]]

    @property
    def boxes(self) -> list[Any]:
        return [*self["has"], *self["is"]]


def _named(values: Iterable[str]) -> Choices:
    return [(value, value) for value in dict.fromkeys(values)]


def _choice(label: str, anything: str, groups: Sequence[Any], value: str) -> forms.ChoiceField:
    """A select. A value that was typed and is none of the choices is one more."""
    known = {each: each for _, choices in groups for each, _ in choices}
    chosen = next((each for each in known if name_key(each) == name_key(value)), value)
    if chosen and chosen not in known:
        groups = [("", [(chosen, chosen)]), *groups]
    choices: Choices = [("", anything)]
    for name, of_group in groups:
        choices += [(name, of_group)] if name else of_group
    return forms.ChoiceField(
        label=label, choices=choices, initial=chosen, widget=forms.Select(attrs=AT_ONCE)
    )


def _day(label: str, value: Any) -> forms.DateField:
    return forms.DateField(
        label=label,
        initial=value.isoformat() if value else "",
        widget=forms.DateInput(attrs={"type": "date", "class": "input"}),
    )
