"""Metadata of OpenID Connect providers (OpenID Connect Discovery). Pure: nothing in a document is trusted unchecked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from django.utils.translation import gettext_noop

from chat.events import Json, JsonObject
from chat.identity.tokens import ALGORITHMS
from chat.tools.sign_in.metadata import SignInFailed, checked_address, is_encrypted

WELL_KNOWN = "/.well-known/openid-configuration"

# Sentences for administrators, stored in English; pages translate them.
NO_DOCUMENT = gettext_noop("There is no discovery document at this address.")
OTHER_ISSUER = gettext_noop("The discovery document is that of another provider.")
NO_ENDPOINT = gettext_noop("The discovery document lacks an address that signing in needs.")
UNSAFE = gettext_noop("The provider uses an address without encryption (http).")
NO_ALGORITHM = gettext_noop(
    "The provider signs with no algorithm that is accepted here (RS, PS, ES or EdDSA)."
)
NO_PKCE = gettext_noop("The provider doesn’t support PKCE with S256.")
NO_CODE = gettext_noop("The provider doesn’t support the authorization code flow.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """``algorithms``: those of its ID tokens that are accepted here. ``names_itself``: its answers name it (RFC 9207).
    ``logs_out``: it can tell us when a session ends."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str = ""
    auth_methods: Sequence[str] = ()
    algorithms: Sequence[str] = ()
    names_itself: bool = False
    logs_out: bool = False


def issuer_of(address: str) -> str:
    """The issuer whose discovery address, or own address, this is."""
    address = address.strip()
    return address.removesuffix(WELL_KNOWN) if address.endswith(WELL_KNOWN) else address


def document_address(issuer: str) -> str:
    """Where the metadata of an issuer is (section 4)."""
    parts = urlsplit(issuer)
    return urlunsplit((parts.scheme, parts.netloc, parts.path.rstrip("/") + WELL_KNOWN, "", ""))


def read_metadata(document: JsonObject, issuer: str, *, needs_encryption: bool) -> Metadata:
    """Raises ``SignInFailed`` with a sentence for administrators."""
    if document.get("issuer") != issuer:
        raise SignInFailed(OTHER_ISSUER)
    found = {
        name: checked_address(document.get(name))
        for name in ("authorization_endpoint", "token_endpoint", "jwks_uri", "userinfo_endpoint")
    }
    if not all(found[name] for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")):
        raise SignInFailed(NO_ENDPOINT)
    addresses = [issuer, *filter(None, found.values())]
    is_secure = needs_encryption or is_encrypted(issuer)
    if is_secure and not all(map(is_encrypted, addresses)):
        raise SignInFailed(UNSAFE)
    types = _words(document.get("response_types_supported"))
    if types and "code" not in types:
        raise SignInFailed(NO_CODE)
    challenges = document.get("code_challenge_methods_supported")
    # Entra ID supports it without saying so.
    if challenges is not None and "S256" not in _words(challenges):
        raise SignInFailed(NO_PKCE)
    stated = _words(document.get("id_token_signing_alg_values_supported"))
    algorithms = [each for each in stated if each in ALGORITHMS]
    if stated and not algorithms:
        raise SignInFailed(NO_ALGORITHM)
    return Metadata(
        issuer=issuer,
        **found,
        auth_methods=_words(document.get("token_endpoint_auth_methods_supported")),
        algorithms=algorithms,
        names_itself=document.get("authorization_response_iss_parameter_supported") is True,
        logs_out=document.get("backchannel_logout_supported") is True,
    )


def _words(value: Json) -> list[str]:
    entries = value[:200] if isinstance(value, list) else []
    return [each for each in entries if isinstance(each, str)]
