"""The part of a tool server's page about signing in, as plain values without secrets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from chat.models import OAuthClient, ToolAccount, ToolServer, User
from chat.tools.sign_in.clients import redirect_uri


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInSection:
    """``account`` is that of the reader; ``people`` is the number of accounts. ``clients`` are the registrations that
    accounts of this server use, and those that were entered for the team."""

    account: ToolAccount | None
    people: int
    clients: Sequence[OAuthClient]
    redirect_uri: str

    @property
    def is_connected(self) -> bool:
        return self.account is not None and not self.account.problem


def sign_in_of(server: ToolServer, reader: User) -> SignInSection:
    used = OAuthClient.objects.filter(accounts__server=server)
    entered = OAuthClient.objects.filter(team=server.team_id, source="entered")
    return SignInSection(
        account=ToolAccount.objects.filter(server=server, person=reader).first(),
        people=server.accounts.count(),
        clients=list((used | entered).distinct().order_by("issuer", "pk")),
        redirect_uri=redirect_uri(),
    )


def host_of_issuer(issuer: str) -> str:
    return urlsplit(issuer).netloc
