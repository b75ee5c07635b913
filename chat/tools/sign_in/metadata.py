"""Metadata of protected resources (RFC 9728) and authorization servers (RFC 8414, OpenID Connect Discovery).

Pure: addresses of documents, and values read from what a server sent. Nothing in a document is trusted: each address
is checked, and what doesn't belong to the server that was asked is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit, urlunsplit

from django.utils.translation import gettext_noop

from chat.events import Json, JsonObject

ADDRESS_LENGTH = 500
SCOPE_LENGTH = 2000
MOST_SCOPES = 50
# More of a challenge isn't read.
CHALLENGE_LENGTH = 4000

# Sentences for people, stored in English; pages translate them.
NO_METADATA = gettext_noop("The server doesn’t say where to sign in.")
WRONG_RESOURCE = gettext_noop("The sign-in information of the server is for another address.")
NO_ISSUER = gettext_noop("The sign-in server doesn’t publish valid information about itself.")
NO_PKCE = gettext_noop("The sign-in server doesn’t support PKCE (S256), so signing in isn’t safe.")
MIXED = gettext_noop(
    "The sign-in server sends people to another address without naming itself in answers (RFC 9207), so signing in isn’t safe."
)
UNSAFE = gettext_noop("The sign-in server uses an address without encryption (http).")

_PARAMETER = re.compile(r'([A-Za-z0-9_.~-]{1,40})\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))')
_SCOPE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")
_STRANGE = re.compile(r"[\s\x00-\x20\x7f-\U0010ffff\\]")


class SignInFailed(Exception):
    """Signing in is not possible. Its text is a sentence for people, in English."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """A protected server: the address that tokens are for, and who issues them. ``scopes`` is what to ask for."""

    address: str
    issuers: Sequence[str]
    scopes: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Issuer:
    """An authorization server. ``must_name_issuer``: its answers name it (RFC 9207)."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    scopes: Sequence[str] = ()
    grants: Sequence[str] = ()
    auth_methods: Sequence[str] = ()
    takes_document: bool = False
    must_name_issuer: bool = False


# --- addresses ------------------------------------------------------------------------------------


def origin_of(address: str) -> str:
    """Scheme, host and port in their usual form; empty if the address is none."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return ""
    if not parts.hostname:
        return ""
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return f"{parts.scheme}://{host}" + (f":{port}" if port not in (None, usual) else "")


def is_encrypted(address: str) -> bool:
    """Schemes are case-insensitive, and ``urlsplit`` gives them in lower case."""
    return urlsplit(address).scheme == "https"


def resource_documents(server: str, named: str = "") -> list[str]:
    """Where the metadata of a server may be, in the order to try: the address that a challenge named, as far as it is
    at the server's own origin, then the well-known ones (RFC 9728 section 3.1)."""
    parts = urlsplit(server)
    found = [
        _well_known(parts, "oauth-protected-resource", parts.path, parts.query),
        _well_known(parts, "oauth-protected-resource", ""),
    ]
    if named and checked_address(named) and origin_of(named) == origin_of(server):
        found.insert(0, named)
    return list(dict.fromkeys(found))


def is_of_whole_origin(document: str) -> bool:
    """Returns whether this is the address of the metadata of a whole origin."""
    parts = urlsplit(document)
    return parts.path == "/.well-known/oauth-protected-resource" and not parts.query


def issuer_documents(issuer: str) -> list[str]:
    """Where the metadata of an issuer may be, in the order of the MCP specification."""
    parts = urlsplit(issuer)
    path = parts.path.rstrip("/")
    names = ("oauth-authorization-server", "openid-configuration")
    found = [_well_known(parts, name, path) for name in names]
    if path:
        appended = f"{path}/.well-known/openid-configuration"
        found.append(urlunsplit((parts.scheme, parts.netloc, appended, "", "")))
    return found


def _well_known(parts: SplitResult, name: str, path: str, query: str = "") -> str:
    path = f"/.well-known/{name}{path.rstrip('/')}"
    return urlunsplit((parts.scheme, parts.netloc, path, query, ""))


def checked_address(value: Json) -> str:
    """An http(s) address without user, password and fragment; empty if the value is none."""
    if not isinstance(value, str) or len(value) > ADDRESS_LENGTH or _STRANGE.search(value):
        return ""
    try:
        parts = urlsplit(value)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return ""
    return value if is_valid and "@" not in parts.netloc and "#" not in value else ""


# --- documents ------------------------------------------------------------------------------------


def challenge_of(headers: Sequence[tuple[bytes, bytes]]) -> Mapping[str, str]:
    """The parameters of the ``WWW-Authenticate`` headers with the scheme Bearer, the first of each name."""
    found: dict[str, str] = {}
    for name, value in headers:
        text = value.decode("latin-1")[:CHALLENGE_LENGTH].strip()
        if name.lower() == b"www-authenticate" and text.lower().startswith("bearer"):
            for key, quoted, token in _PARAMETER.findall(text[len("bearer") :]):
                found.setdefault(key.lower(), re.sub(r"\\(.)", r"\1", quoted) or token)
    return found


def read_resource(
    document: JsonObject, server: str, challenged: str = "", *, is_of_origin: bool = False
) -> Resource:
    """The resource that a document describes. Raises ``SignInFailed`` unless it is this server's: tokens for another
    address are never asked for. ``challenged`` are the scopes that the server asked for; ``is_of_origin``: the document
    is that of the whole origin, which alone may describe it (RFC 9728 section 3.3)."""
    address = checked_address(document.get("resource"))
    if not address or not _is_described(address, server, is_of_origin=is_of_origin):
        raise SignInFailed(WRONG_RESOURCE)
    listed = document.get("authorization_servers")
    issuers = [checked_address(each) for each in listed[:5]] if isinstance(listed, list) else []
    issuers = [each for each in issuers if each]
    if not issuers:
        raise SignInFailed(NO_METADATA)
    scopes = scopes_of(challenged.split()) or scopes_of(document.get("scopes_supported"))
    return Resource(address=address, issuers=issuers, scopes=scopes)


def _is_described(resource: str, server: str, *, is_of_origin: bool) -> bool:
    if origin_of(resource) != origin_of(server):
        return False
    named, asked = urlsplit(resource), urlsplit(server)
    path = named.path.rstrip("/")
    if (path, named.query) == (asked.path.rstrip("/"), asked.query):
        return True
    return is_of_origin and not path and not named.query


def covers(resource: str, server: str) -> bool:
    """Returns whether the server is the resource, or below its path."""
    if origin_of(resource) != origin_of(server):
        return False
    above, below = urlsplit(resource), urlsplit(server)
    if above.query and above.query != below.query:
        return False
    prefix = above.path.rstrip("/") + "/"
    return (below.path.rstrip("/") + "/").startswith(prefix)


def read_issuer(document: JsonObject, issuer: str, *, is_secure: bool) -> Issuer:
    """The authorization server that a document describes. Raises ``SignInFailed`` if it is another one, or lacks what
    signing in needs. ``is_secure``: its addresses have to be encrypted."""
    endpoints = {
        name: checked_address(document.get(f"{name}_endpoint"))
        for name in ("authorization", "token", "registration", "revocation")
    }
    is_same = document.get("issuer") == issuer
    if not is_same or not endpoints["authorization"] or not endpoints["token"]:
        raise SignInFailed(NO_ISSUER)
    if is_secure and not all(is_encrypted(each) for each in (issuer, *endpoints.values()) if each):
        raise SignInFailed(UNSAFE)
    if "S256" not in _words(document.get("code_challenge_methods_supported")):
        raise SignInFailed(NO_PKCE)
    names_itself = document.get("authorization_response_iss_parameter_supported") is True
    # Without its name in the answer, a code of an honest server that people were sent to would go to this one.
    if not names_itself and not (
        origin_of(endpoints["authorization"]) == origin_of(endpoints["token"]) == origin_of(issuer)
    ):
        raise SignInFailed(MIXED)
    return Issuer(
        issuer=issuer,
        authorization_endpoint=endpoints["authorization"],
        token_endpoint=endpoints["token"],
        registration_endpoint=endpoints["registration"],
        revocation_endpoint=endpoints["revocation"],
        scopes=scopes_of(document.get("scopes_supported")),
        grants=_words(document.get("grant_types_supported")),
        auth_methods=_words(document.get("token_endpoint_auth_methods_supported")),
        takes_document=document.get("client_id_metadata_document_supported") is True,
        must_name_issuer=names_itself,
    )


def scopes_to_ask(resource: Resource, issuer: Issuer, wanted: Sequence[str] = ()) -> str:
    """Also those that a call has turned out to need (``wanted``), and ``offline_access`` where the issuer gives refresh
    tokens for it."""
    scopes = scopes_of(list(dict.fromkeys([*wanted, *resource.scopes])))
    if "offline_access" in issuer.scopes and scopes and "offline_access" not in scopes:
        scopes.append("offline_access")
    return " ".join(scopes)


def scopes_of(value: object) -> list[str]:
    found = [each for each in _words(value) if _SCOPE.fullmatch(each)][:MOST_SCOPES]
    while len(" ".join(found)) > SCOPE_LENGTH - len(" offline_access"):
        found.pop()
    return found


def _words(value: object) -> list[str]:
    if not isinstance(value, list):
        return []
    return [each for each in value[:200] if isinstance(each, str)]
