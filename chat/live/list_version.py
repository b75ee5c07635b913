"""The version of a person's list of conversations: it changes with whatever the list shows. And what has
changed lately in the teams of the people who have a list open.

It is read once a second for everybody who has a page open, so it reads no list. Each part of it is
the first entry of an index: the newest change among what is shared in a team, in each project that
the person sees, and among what is one's own. What was taken away need not have been the newest: each
team counts that. Pins belong to no conversation's time: each person counts them.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from django.db import connection

from chat.core.prepared import array_of_keys, fetch

_OWN, _MEMBER, _TEAM, _TEAM_PROJECT, _PROJECT_MEMBER, _CHANGED, _CHANGED_PRIVATE, _SNAPSHOT = range(
    8
)
# With more changes in a few seconds (an import, for instance) pages ask for their lists.
MOST_CHANGES = 2000
# Without an interest in changes.
_NEVER = datetime.max.replace(tzinfo=UTC)
# Each team and its projects once, however many of its people are asked about.
_ROWS = """
    WITH asked AS ({asked}), teams AS (
        SELECT DISTINCT member.team_id AS id
        FROM asked JOIN chat_membership member ON member.user_id = asked.person_id
    ), read AS (
        SELECT 0 AS kind, asked.person_id AS id,
            (SELECT pin_changes FROM chat_user WHERE id = asked.person_id) AS other,
            (SELECT updated_at FROM chat_conversation
                WHERE owner_id = asked.person_id ORDER BY updated_at DESC LIMIT 1) AS newest
        FROM asked
        UNION ALL
        SELECT 1, member.user_id, member.team_id, NULL
        FROM asked JOIN chat_membership member ON member.user_id = asked.person_id
        UNION ALL
        SELECT 2, team.id, team.withdrawals,
            (SELECT updated_at FROM chat_conversation
                WHERE team_id = team.id AND visibility = 'team' ORDER BY updated_at DESC LIMIT 1)
        FROM chat_team team JOIN teams ON teams.id = team.id
        UNION ALL
        SELECT 3, project.team_id, project.id, {newest_of_project}
        FROM chat_project project JOIN teams ON teams.id = project.team_id
        WHERE project.access = 'team'
        UNION ALL
        SELECT 4, asked.person_id, project.id, {newest_of_project}
        FROM asked
        JOIN chat_projectmember selected ON selected.user_id = asked.person_id
        JOIN chat_project project ON project.id = selected.project_id AND project.access = 'members'
        JOIN chat_membership member
            ON member.user_id = asked.person_id AND member.team_id = project.team_id
        UNION ALL
        SELECT kind, id, owner_id, updated_at FROM (
            SELECT CASE visibility WHEN 'private' THEN 6 ELSE 5 END AS kind, id, owner_id, updated_at
            FROM chat_conversation
            WHERE team_id IN (SELECT id FROM teams) AND updated_at > %s
            ORDER BY updated_at DESC LIMIT {most_changes}
        ) AS changed
        UNION ALL
        {snapshot}
    )
    SELECT kind, id, other, {newest} FROM read
"""
_NEWEST_OF_PROJECT = """(
    SELECT updated_at FROM chat_conversation
    WHERE project_id = project.id AND visibility = 'project' ORDER BY updated_at DESC LIMIT 1
)"""
_ROWS_IN_POSTGRES = _ROWS.format(
    asked="SELECT unnest(%s::bigint[]) AS person_id",
    newest_of_project=_NEWEST_OF_PROJECT,
    most_changes=MOST_CHANGES,
    # The times are only compared, and making datetimes of them takes longer than all the rest.
    newest="newest::text",
    snapshot="{snapshot}",
)
# The number of this statement's own transaction is behind those of all that began to write before it. The
# end of the snapshot is not: it follows the transactions that have ended.
_SNAPSHOT_ROW = """SELECT 7, pg_snapshot_xmin(pg_current_snapshot())::text::bigint,
    pg_current_xact_id()::text::bigint, NULL
"""
_NO_ROW = "SELECT 7, 0, 0, NULL WHERE 1 = 0"
_VERSIONS_IN_POSTGRES = _ROWS_IN_POSTGRES.format(snapshot=_NO_ROW)
_CHECK_IN_POSTGRES = _ROWS_IN_POSTGRES.format(snapshot=_SNAPSHOT_ROW)
_ROWS_IN_SQLITE = _ROWS.format(
    asked="SELECT value AS person_id FROM json_each(%s)",
    newest_of_project=_NEWEST_OF_PROJECT,
    most_changes=MOST_CHANGES,
    newest="newest",
    snapshot=_NO_ROW,
)


# Its key, and when the newest conversation in it changed.
_Project = tuple[int, object]


class ChangedRow(NamedTuple):
    """A conversation that has changed lately, in a team of somebody who was asked about."""

    conversation_pk: int
    owner_pk: int
    updated_at: object
    is_private: bool


class Snapshot(NamedTuple):
    """Which transactions of PostgreSQL a query sees: all before ``oldest`` had ended, and none from
    ``next`` on had begun to write."""

    oldest: int
    next: int


# SQLite has one writer at a time, so each query sees all transactions before it.
_ALL_ENDED = Snapshot(0, 0)


class Lists(NamedTuple):
    """The versions for people (primary keys), and what has changed in their teams since a moment."""

    versions: dict[int, str]
    changed: list[ChangedRow]
    snapshot: Snapshot


def read_list_versions(people: Collection[int]) -> dict[int, str]:
    return read_lists(people, _NEVER).versions


def read_lists(people: Collection[int], since: datetime) -> Lists:
    """At most `MOST_CHANGES` changed conversations. One query, so all is of the same moment; none where
    there is nobody."""
    if not people:
        return Lists({}, [], _ALL_ENDED)
    if connection.vendor == "postgresql":
        text = _VERSIONS_IN_POSTGRES if since is _NEVER else _CHECK_IN_POSTGRES
        rows = fetch(text, [array_of_keys(people), since])
    else:
        rows = fetch(_ROWS_IN_SQLITE, [json.dumps(list(people)), since])
    changed = [
        ChangedRow(key, owner, updated_at, kind == _CHANGED_PRIVATE)
        for kind, key, owner, updated_at in rows
        if kind in (_CHANGED, _CHANGED_PRIVATE)
    ]
    snapshots = (
        Snapshot(oldest, following) for kind, oldest, following, _ in rows if kind == _SNAPSHOT
    )
    return Lists(_versions(rows), changed, next(snapshots, _ALL_ENDED))


def _versions(rows: Collection[tuple[Any, ...]]) -> dict[int, str]:
    read = _Read()
    for kind, key, second, newest in rows:
        if kind == _OWN:
            read.people.append((key, second, newest))
        elif kind == _MEMBER:
            read.teams_of[key].append(second)
        elif kind == _TEAM:
            read.teams[key] = (second, newest)
        elif kind == _TEAM_PROJECT:
            read.projects_of_team[key].append((second, newest))
        elif kind == _PROJECT_MEMBER:
            read.projects_of[key].append((second, newest))
    return {person: _version(read, person, pins=pins, own=own) for person, pins, own in read.people}


@dataclass(slots=True)
class _Read:
    """The rows by kind. ``shared`` are the digests of what people see who are in the same teams, and in
    no project of their own."""

    people: list[tuple[int, int, object]] = field(default_factory=list)
    teams: dict[int, tuple[int, object]] = field(default_factory=dict)
    teams_of: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    projects_of_team: dict[int, list[_Project]] = field(default_factory=lambda: defaultdict(list))
    projects_of: dict[int, list[_Project]] = field(default_factory=lambda: defaultdict(list))
    shared: dict[tuple[int, ...], tuple[str, str]] = field(default_factory=dict)


def _version(read: _Read, person: int, *, pins: int, own: object) -> str:
    teams = tuple(sorted(read.teams_of[person]))
    projects = read.projects_of[person]
    seen = None if projects else read.shared.get(teams)
    if seen is None:
        seen = _digests(read, teams, projects)
        if not projects:
            read.shared[teams] = seen
    access, newest = seen
    return f"{access}-{_digest((own, newest))}-{pins}"


def _digests(read: _Read, teams: Iterable[int], projects: Iterable[_Project]) -> tuple[str, str]:
    """What is to be seen in these teams and projects, and how new it is."""
    known = [(team, *read.teams[team]) for team in teams]
    all_projects = chain(projects, *(read.projects_of_team[team] for team in teams))
    in_order = sorted(all_projects, key=itemgetter(0))
    return (
        _digest([[known_team[:2] for known_team in known], [key for key, _ in in_order]]),
        _digest([[newest for *_, newest in known], [newest for _, newest in in_order]]),
    )


def read_list_version(person: int) -> str:
    """Read before the list: a list that is newer than its version is fetched once more."""
    return read_list_versions([person])[person]


def access_part(version: str) -> str:
    """Differs where a conversation, or a team with all of its conversations, was taken away."""
    return version.partition("-")[0]


def order_part(version: str) -> str:
    """Differs where the person has pinned something else, or in another order."""
    return version.rpartition("-")[2]


def _digest(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=6).hexdigest()
