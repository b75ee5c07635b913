"""The accounts of a person at tool servers, as their page shows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext

from chat import access
from chat.models import ToolAccount, ToolServer, User
from chat.tools.sign_in.server_section import host_of_issuer


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountLine:
    """A server, and the person's account there. ``may_connect``: the person still may have one."""

    server: ToolServer
    account: ToolAccount | None = None
    may_connect: bool = True

    @property
    def host(self) -> str:
        return host_of_issuer(self.account.issuer) if self.account else ""

    @property
    def problem(self) -> str:
        return gettext(self.account.problem) if self.account and self.account.problem else ""


def account_lines(person: User) -> Sequence[AccountLine]:
    """The servers that the person may sign in at, and accounts at others."""
    mine = {account.server_id: account for account in access.tool_accounts(person)}
    servers = list(access.sign_in_servers(person))
    lines = [AccountLine(server=server, account=mine.pop(server.pk, None)) for server in servers]
    rest = [
        AccountLine(server=account.server, account=account, may_connect=False)
        for account in mine.values()
    ]
    return [*lines, *rest]
