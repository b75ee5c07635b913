"""Finds where people sign in for a tool server: its own metadata, then that of its authorization server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from chat.tools.sign_in.documents import UNREACHABLE, Answer, get, post_json
from chat.tools.sign_in.metadata import (
    NO_ISSUER,
    NO_METADATA,
    UNSAFE,
    Issuer,
    Resource,
    SignInFailed,
    challenge_of,
    is_encrypted,
    is_of_whole_origin,
    issuer_documents,
    read_issuer,
    read_resource,
    resource_documents,
)
from chat.upstreams.client import Client

# The time of all requests together: a server may answer each of them slowly.
DISCOVERY_SECONDS = 8.0
# Changes nothing; a server that asks for a sign-in refuses it with a challenge.
_PROBE = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
_ACCEPT = "application/json, text/event-stream"


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """Where to sign in for a server."""

    resource: Resource
    issuer: Issuer


async def discover(client: Client, server: str) -> Discovered:
    """Asks the server at this address, and its authorization server. Raises ``SignInFailed``."""
    try:
        async with asyncio.timeout(DISCOVERY_SECONDS):
            resource = await _resource_of(client, server)
            return Discovered(resource=resource, issuer=await _issuer_of(client, resource, server))
    except TimeoutError:
        raise SignInFailed(UNREACHABLE) from None


async def _resource_of(client: Client, server: str) -> Resource:
    answer = await post_json(client, server, _PROBE, accept=_ACCEPT)
    challenge = challenge_of(answer.headers) if answer.status == 401 else {}
    for address in resource_documents(server, challenge.get("resource_metadata", "")):
        found = await _document(client, address)
        if found is not None:
            # A document of somebody else ends the search: guessing further would hide it.
            return read_resource(
                found.document,
                server,
                challenge.get("scope", ""),
                is_of_origin=is_of_whole_origin(address),
            )
    raise SignInFailed(NO_METADATA)


async def _issuer_of(client: Client, resource: Resource, server: str) -> Issuer:
    """The first authorization server that can be used."""
    is_secure = is_encrypted(server)
    problem = SignInFailed(NO_ISSUER)
    for issuer in resource.issuers:
        if is_secure and not is_encrypted(issuer):
            problem = SignInFailed(UNSAFE)
            continue
        try:
            return await _read_issuer(client, issuer, is_secure=is_secure)
        except SignInFailed as failed:
            problem = failed
    raise problem


async def _read_issuer(client: Client, issuer: str, *, is_secure: bool) -> Issuer:
    for address in issuer_documents(issuer):
        found = await _document(client, address)
        if found is not None:
            return read_issuer(found.document, issuer, is_secure=is_secure)
    raise SignInFailed(NO_ISSUER)


async def _document(client: Client, address: str) -> Answer | None:
    answer = await get(client, address)
    return answer if answer.is_success and answer.document else None
