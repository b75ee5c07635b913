"""The version of a person's list of conversations: it changes with whatever the list shows.

It is read once a second for everybody who has a page open, so it reads no list. Each part of it is
the first entry of an index: the newest change among what is shared in a team, the newest among what
is one's own. What was taken away need not have been the newest: each team counts that. Pins belong to
no conversation's time: each person counts them.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Collection

from django.db import connection

from chat.core.prepared import fetch

_OWN, _MEMBER, _TEAM = range(3)
# Each team once, however many of its people are asked about.
_ROWS = """
    WITH asked AS ({asked})
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
    FROM chat_team team
    WHERE team.id IN (
        SELECT member.team_id
        FROM asked JOIN chat_membership member ON member.user_id = asked.person_id
    )
"""
_ROWS_IN_POSTGRES = _ROWS.format(asked="SELECT unnest(%s::bigint[]) AS person_id")
_ROWS_IN_SQLITE = _ROWS.format(asked="SELECT value AS person_id FROM json_each(%s)")


def read_list_versions(people: Collection[int]) -> dict[int, str]:
    """One query for all of these people (primary keys); none where there is nobody."""
    if not people:
        return {}
    if connection.vendor == "postgresql":
        rows = fetch(_ROWS_IN_POSTGRES, [list(people)])
    else:
        rows = fetch(_ROWS_IN_SQLITE, [json.dumps(list(people))])
    newest_of_team = {team: newest for kind, team, _, newest in rows if kind == _TEAM}
    withdrawals = {team: count for kind, team, count, _ in rows if kind == _TEAM}
    teams = defaultdict(list)
    for person, team in sorted((one, two) for kind, one, two, _ in rows if kind == _MEMBER):
        teams[person].append(team)
    return {
        person: _version(
            [(team, withdrawals[team]) for team in teams[person]],
            [own, pins, *(newest_of_team[team] for team in teams[person])],
        )
        for kind, person, pins, own in rows
        if kind == _OWN
    }


def read_list_version(person: int) -> str:
    """Read before the list: a list that is newer than its version is fetched once more."""
    return read_list_versions([person])[person]


def access_part(version: str) -> str:
    """Differs where a conversation, or a team with all of its conversations, was taken away."""
    return version.partition("-")[0]


def _version(access: list[tuple[int, int]], newest: list[object]) -> str:
    return f"{_digest(access)}-{_digest(newest)}"


def _digest(value: object) -> str:
    return hashlib.blake2b(repr(value).encode(), digest_size=6).hexdigest()
