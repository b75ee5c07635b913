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
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

from django.db import connection

from chat.core.prepared import array_of_keys, fetch

_OWN, _MEMBER, _TEAM, _TEAM_PROJECT, _PROJECT_MEMBER, _CHANGED, _CHANGED_PRIVATE = range(7)
# With more changes in a few seconds (an import, for instance) pages ask for their lists.
MOST_CHANGES = 2000
# Without an interest in changes.
_NEVER = datetime.max.replace(tzinfo=UTC)
# Each team and its projects once, however many of its people are asked about.
_ROWS = """
    WITH asked AS ({asked}), teams AS (
        SELECT DISTINCT member.team_id AS id
        FROM asked JOIN chat_membership member ON member.user_id = asked.person_id
    )
    SELECT 0, asked.person_id,
        (SELECT pin_changes FROM chat_user WHERE id = asked.person_id),
        (SELECT updated_at FROM chat_conversation
            WHERE owner_id = asked.person_id ORDER BY updated_at DESC LIMIT 1)
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
"""
_NEWEST_OF_PROJECT = """(
    SELECT updated_at FROM chat_conversation
    WHERE project_id = project.id AND visibility = 'project' ORDER BY updated_at DESC LIMIT 1
)"""
_ROWS_IN_POSTGRES = _ROWS.format(
    asked="SELECT unnest(%s::bigint[]) AS person_id",
    newest_of_project=_NEWEST_OF_PROJECT,
    most_changes=MOST_CHANGES,
)
_ROWS_IN_SQLITE = _ROWS.format(
    asked="SELECT value AS person_id FROM json_each(%s)",
    newest_of_project=_NEWEST_OF_PROJECT,
    most_changes=MOST_CHANGES,
)


class ChangedRow(NamedTuple):
    """A conversation that has changed lately, in a team of somebody who was asked about."""

    conversation_pk: int
    owner_pk: int
    updated_at: object
    is_private: bool


def read_list_versions(people: Collection[int]) -> dict[int, str]:
    return read_lists(people, _NEVER)[0]


def read_lists(people: Collection[int], since: datetime) -> tuple[dict[int, str], list[ChangedRow]]:
    """The versions for these people (primary keys), and what has changed in their teams since a moment, at
    most `MOST_CHANGES` conversations. One query, so both are of the same moment; none where there is
    nobody."""
    if not people:
        return {}, []
    if connection.vendor == "postgresql":
        rows = fetch(_ROWS_IN_POSTGRES, [array_of_keys(people), since])
    else:
        rows = fetch(_ROWS_IN_SQLITE, [json.dumps(list(people)), since])
    changed = [
        ChangedRow(key, owner, updated_at, kind == _CHANGED_PRIVATE)
        for kind, key, owner, updated_at in rows
        if kind in (_CHANGED, _CHANGED_PRIVATE)
    ]
    return _versions(rows), changed


def _versions(rows: Collection[tuple[Any, ...]]) -> dict[int, str]:
    shared = {team: (count, newest) for kind, team, count, newest in rows if kind == _TEAM}
    teams = _grouped(rows, _MEMBER)
    projects_of_team = _grouped(rows, _TEAM_PROJECT)
    projects_of_person = _grouped(rows, _PROJECT_MEMBER)
    versions = {}
    for kind, person, pins, own in rows:
        if kind == _OWN:
            seen = sorted(team for team, _ in teams[person])
            projects = sorted(
                chain(projects_of_person[person], *(projects_of_team[team] for team in seen)),
                key=itemgetter(0),
            )
            versions[person] = _version(
                [*((team, shared[team][0]) for team in seen), *(key for key, _ in projects)],
                [
                    own,
                    *(shared[team][1] for team in seen),
                    *(newest for _, newest in projects),
                ],
                pins,
            )
    return versions


def _grouped(rows: Iterable[tuple[Any, ...]], wanted: int) -> Mapping[int, list[tuple[int, Any]]]:
    """The last two columns of the rows of one kind, by the second."""
    groups = defaultdict(list)
    for kind, key, second, third in rows:
        if kind == wanted:
            groups[key].append((second, third))
    return groups


def read_list_version(person: int) -> str:
    """Read before the list: a list that is newer than its version is fetched once more."""
    return read_list_versions([person])[person]


def access_part(version: str) -> str:
    """Differs where a conversation, or a team with all of its conversations, was taken away."""
    return version.partition("-")[0]


def order_part(version: str) -> str:
    """Differs where the person has pinned something else, or in another order."""
    return version.rpartition("-")[2]


def _version(access: list[object], newest: list[object], pins: int) -> str:
    return f"{_digest(access)}-{_digest(newest)}-{pins}"


def _digest(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=6).hexdigest()
