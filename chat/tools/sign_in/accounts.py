"""The rows of accounts at tool servers, and the compare-and-swap by which one process refreshes their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from uuid import UUID, uuid4

from django.db.models import F, Q, QuerySet
from django.utils import timezone

from chat.core.encryption import DecryptionError
from chat.models import OAuthClient, ToolAccount, ToolServer, User
from chat.tools.sign_in.metadata import covers
from chat.tools.sign_in.tokens import UNREADABLE, Tokens

# A token that ends so soon is refreshed before it is used.
EARLY = timedelta(seconds=30)
# The claim of a process that died in the middle of a refresh. A request takes 10 seconds at most.
LOST_AFTER = timedelta(seconds=60)
# The pause after a refresh that failed for a reason that may pass.
PAUSE = timedelta(seconds=20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Credential:
    """The tokens of one version of an account, in plain text, and where they are refreshed."""

    account: int
    version: int
    access: str = field(repr=False)
    refresh: str = field(repr=False)
    is_expired: bool
    client: OAuthClient
    token_endpoint: str
    revocation_endpoint: str
    resource: str


class Claim(StrEnum):
    """Why a refresh can't be claimed."""

    # Somebody else refreshes, or has done so.
    TAKEN = "taken"
    # One has just failed.
    PAUSED = "paused"


def bearer(credential: Credential) -> dict[str, str]:
    """The header of a request with this credential."""
    return {"Authorization": "Bearer " + credential.access}


def usable_accounts(person: User, server: ToolServer) -> QuerySet[ToolAccount]:
    return ToolAccount.objects.filter(person=person, server=server, problem="")


def account_for_call(person: User | None, server: ToolServer) -> ToolAccount | None:
    """The account to call the server with. Its tokens are for the address that the server has now."""
    if person is None:
        return None
    account = usable_accounts(person, server).first()
    return account if account is not None and covers(account.resource, server.address) else None


def has_ended(person: User, server: ToolServer) -> bool:
    """Returns whether this person has to sign in again."""
    return ToolAccount.objects.filter(person=person, server=server).exclude(problem="").exists()


def connected_servers(person: User) -> set[int]:
    """The keys of the servers that this person's calls can use, as `account_for_call` says."""
    accounts = ToolAccount.objects.filter(person=person, problem="").select_related("server")
    return {each.server_id for each in accounts if covers(each.resource, each.server.address)}


def read_credential(pk: int) -> Credential | None:
    """``None`` if the person has to sign in (again)."""
    account = ToolAccount.objects.select_related("client").filter(pk=pk, problem="").first()
    # An id of another issuer is never used with these tokens.
    if account is None or account.client.issuer != account.issuer:
        return None
    try:
        tokens = account.open_tokens()
    except DecryptionError:
        end_account(pk, account.version, UNREADABLE)
        return None
    return Credential(
        account=pk,
        version=account.version,
        access=tokens["access"],
        refresh=tokens["refresh"],
        is_expired=account.expires_at is not None and account.expires_at < timezone.now() + EARLY,
        client=account.client,
        token_endpoint=account.token_endpoint,
        revocation_endpoint=account.revocation_endpoint,
        resource=account.resource,
    )


def claim_refresh(pk: int, version: int) -> UUID | Claim:
    """Lets this process alone refresh the tokens of this version."""
    token, now = uuid4(), timezone.now()
    mine = ToolAccount.objects.filter(pk=pk, version=version, problem="")
    is_free = Q(refresh_claim=None) & (
        Q(refresh_claimed_at=None) | Q(refresh_claimed_at__lt=now - PAUSE)
    )
    is_lost = Q(refresh_claim__isnull=False, refresh_claimed_at__lt=now - LOST_AFTER)
    if mine.filter(is_free | is_lost).update(refresh_claim=token, refresh_claimed_at=now):
        return token
    is_paused = mine.filter(refresh_claim=None, refresh_claimed_at__gte=now - PAUSE)
    return Claim.PAUSED if is_paused.exists() else Claim.TAKEN


def store_refreshed(credential: Credential, claim: UUID, tokens: Tokens) -> bool:
    """False if the account was disconnected, or connected anew, meanwhile."""
    held = ToolAccount.objects.filter(
        pk=credential.account, version=credential.version, refresh_claim=claim
    )
    account = held.first()
    if account is None:
        return False
    account.set_tokens(access=tokens.access, refresh=tokens.refresh or credential.refresh)
    return bool(
        held.update(
            sealed_tokens=account.sealed_tokens,
            expires_at=expiry_of(tokens),
            version=F("version") + 1,
            refresh_claim=None,
            refresh_claimed_at=None,
            **({"scope": tokens.scope} if tokens.scope else {}),
        )
    )


def release(credential: Credential, claim: UUID) -> None:
    """Gives back the claim of a refresh that failed; the next one comes after a pause."""
    held = ToolAccount.objects.filter(pk=credential.account, refresh_claim=claim)
    held.update(refresh_claim=None, refresh_claimed_at=timezone.now())


def end_account(pk: int, version: int, problem: str) -> bool:
    """The person has to sign in again: nothing uses the tokens of this version any more."""
    mine = ToolAccount.objects.filter(pk=pk, version=version, problem="")
    return bool(mine.update(problem=problem, refresh_claim=None, refresh_claimed_at=None))


def need_scopes(pk: int, scopes: Sequence[str]) -> None:
    """The next sign-in of the person asks for these in addition."""
    ToolAccount.objects.filter(pk=pk).update(needed_scope=" ".join(scopes))


def expiry_of(tokens: Tokens) -> datetime | None:
    return timezone.now() + timedelta(seconds=tokens.seconds) if tokens.seconds else None
