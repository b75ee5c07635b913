"""The projects in the sidebar, each with its newest conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet, Subquery

from chat import access
from chat.core.prepared import Prepared

# The list shows at most this many projects; the page of projects shows all.
MOST_PROJECTS = 30
# Conversations that the list shows of one project; its page shows the others.
PROJECT_LINES = 5
# The browser remembers which projects a person has opened and folded; static/projects/folds.js
# writes this cookie. As a cookie, so that the list is never drawn folded and then opened.
FOLDS_COOKIE = "projects"
_LONGEST_COOKIE = 1_000

# The beginning of a project's id -> True if the project is open.
Folds = Mapping[str, bool]
NO_FOLDS: Folds = {}
FOLD_KEY_LENGTH = 8


def folds_of(cookies: Mapping[str, str]) -> Folds:
    """``ab12cd34+`` is open, ``ab12cd34-`` folded; several are joined by dots."""
    kept = cookies.get(FOLDS_COOKIE, "")[:_LONGEST_COOKIE].split(".")
    return {each[:-1]: each[-1] == "+" for each in kept if each}


class ProjectRow(NamedTuple):
    pk: int
    public_id: UUID
    name: str
    color: str
    may_write: bool


WIDTH = len(ProjectRow._fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectGroup:
    """A project in the list, with the lines of its newest conversations."""

    project: ProjectRow
    lines: Sequence[Any]
    is_open: bool

    @property
    def is_running(self) -> bool:
        return any(line.is_running for line in self.lines)

    @property
    def is_waiting(self) -> bool:
        return any(line.is_waiting for line in self.lines)


def project_groups(
    rows: Iterable[tuple[Any, ...]],
    read_lines: Callable[[Sequence[int]], Iterable[Any]],
    *,
    shown: UUID | None,
    folds: Folds,
) -> list[ProjectGroup]:
    """``rows`` are those of `project_query`; ``read_lines`` reads the conversations with these keys.
    The project of the conversation that is ``shown`` is open unless the person has folded it."""
    # The one that is shown may be among the newest, too.
    newest = {
        ProjectRow._make(row[:WIDTH]): list(
            dict.fromkeys(key for key in row[WIDTH:] if key is not None)
        )
        for row in rows
    }
    keys = [key for each in newest.values() for key in each]
    known = {line.pk: line for line in read_lines(keys)} if keys else {}
    groups = []
    for project, of_project in newest.items():
        lines = [known[key] for key in of_project if key in known]
        is_shown = any(line.public_id == shown for line in lines)
        is_open = folds.get(project.public_id.hex[:FOLD_KEY_LENGTH], is_shown)
        groups.append(ProjectGroup(project=project, lines=lines, is_open=is_open))
    return groups


def project_query(listed: Callable[[Any], QuerySet[Any]]) -> Prepared[Any]:
    """A person's projects by name, each with the keys of its newest conversations, and with that of
    the one that is ``shown`` (its id), of those that ``listed`` gives for the person. A subquery for
    each key reads the first entries of an index, where numbering the conversations would read all."""

    def query(person: Any, shown: Any) -> QuerySet[Any]:
        inside = listed(person).filter(project=OuterRef("pk")).values("pk")
        keys = {f"newest_{n}": Subquery(inside[n : n + 1]) for n in range(PROJECT_LINES)}
        keys["shown"] = Subquery(inside.filter(public_id=shown)[:1])
        written = access.writable_projects(person).filter(pk=OuterRef("pk"))
        rows = access.visible_projects(person).annotate(may_write=Exists(written), **keys)
        values = rows.order_by("name", "pk").values_list(*ProjectRow._fields, *keys)
        # The additional row tells whether there are others.
        return values[: MOST_PROJECTS + 1]

    return Prepared(query)
