"""A case of the access matrix: one route, what is sent, and what each actor gets.

``SIGN_IN`` stands for a redirect to the sign-in page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from chat.models import Conversation, Message, Run, Team, Upstream, User

SIGN_IN = "sign-in"
ADMIN = "administrator"
# Alice owns the team, Bob is a member of it, the guest sees what is shared with them only, Charlie is in no
# team, Dana owns another one.
ACTORS = ("anonymous", "alice", "bob", "viewer", "guest", "charlie", "dana", ADMIN)
Outcome = int | str
Outcomes = dict[str, Outcome]
Values = Mapping[str, object]


@dataclass(frozen=True)
class Thread:
    """A conversation of Alice with one question and its answer."""

    conversation: Conversation
    question: Message
    answer: Message
    run: Run


@dataclass(frozen=True)
class World:
    """The rows that URLs and forms refer to. ``sessions``: actor -> session key."""

    team: Team
    upstream: Upstream
    alice: User
    bob: User
    viewer: User
    guest: User
    shared: Thread
    private: Thread
    sessions: Mapping[str, str]


Make = Callable[[World], Values]
MakeInThread = Callable[[Thread], Values]


def nothing(world: World) -> Values:
    return {}


@dataclass(frozen=True)
class Case:
    """One route (with one kind of object) and what each actor gets."""

    route: str
    outcomes: Outcomes
    of: str = ""
    kwargs: Make = nothing
    method: str = "get"
    data: Make = field(default=nothing)

    @property
    def label(self) -> str:
        return f"{self.route} {self.method} {self.of}".strip()


def everyone(outcome: Outcome, **exceptions: Outcome) -> Outcomes:
    return dict.fromkeys(ACTORS, outcome) | exceptions


def signed_in_only(outcome: Outcome, **exceptions: Outcome) -> Outcomes:
    return everyone(outcome, anonymous=SIGN_IN) | exceptions


def readers(outcome: Outcome) -> Outcomes:
    """The team, including its viewers; for everyone else the object does not exist."""
    return signed_in_only(404, alice=outcome, bob=outcome, viewer=outcome)


def writers(outcome: Outcome) -> Outcomes:
    """The team without its viewers, who see the object and may not change it."""
    return signed_in_only(404, alice=outcome, bob=outcome, viewer=403)


def executor_only(outcome: Outcome) -> Outcomes:
    """The person whose account a call uses; for the other writers there is nothing to connect."""
    return signed_in_only(404, alice=outcome, viewer=403)


def owner_only(outcome: Outcome) -> Outcomes:
    """The owner of the conversation; the team sees it and may not do this."""
    return signed_in_only(404, alice=outcome, bob=403, viewer=403)


def alice_only(outcome: Outcome) -> Outcomes:
    """Alice's private objects: they exist for nobody else, not even for an administrator."""
    return signed_in_only(404, alice=outcome)


def team_managers(outcome: Outcome) -> Outcomes:
    """The team's owner and administrators; members see the object and may not change it."""
    return signed_in_only(404, alice=outcome, administrator=outcome, bob=403, viewer=403)


def tool_server_managers(outcome: Outcome) -> Outcomes:
    """Administrators; the team's people are told that they may not."""
    return signed_in_only(404, administrator=outcome, alice=403, bob=403, viewer=403)


def account_managers(outcome: Outcome, **exceptions: Outcome) -> Outcomes:
    """The people who manage Bob's account; for everyone else there is no such person."""
    return signed_in_only(404, alice=outcome, administrator=outcome) | exceptions


def administrators(outcome: Outcome) -> Outcomes:
    """Administrators of the installation; everyone else is told that they lack access."""
    return signed_in_only(403, administrator=outcome)


def in_shared(make: MakeInThread) -> Make:
    return lambda world: make(world.shared)


def in_private(make: MakeInThread) -> Make:
    return lambda world: make(world.private)


def shared_and_private(
    route: str,
    rights: Callable[[Outcome], Outcomes],
    outcome: Outcome,
    kwargs: MakeInThread,
    method: str = "get",
    data: Make = nothing,
) -> list[Case]:
    """In the team's conversation by its rights; in Alice's private one for her alone."""
    return [
        Case(route, rights(outcome), "shared", in_shared(kwargs), method, data),
        Case(route, alice_only(outcome), "private", in_private(kwargs), method, data),
    ]
