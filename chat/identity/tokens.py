"""Validation of ID tokens (OpenID Connect Core, section 3.1.3.7) and logout tokens (Back-Channel Logout, section 2.6).

Pure but for the clock. PyJWT checks signatures; the algorithm and the key are chosen here, because a token must not
choose them.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jwt
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from chat.events import JsonObject

# Clocks of two servers differ by less, or one of them is wrong.
SKEW_SECONDS = 60
TOKEN_LENGTH = 32 * 1024
SUBJECT_LENGTH = 255
MOST_KEYS = 50
# NIST SP 800-131A has forbidden shorter ones since 2014.
LEAST_RSA_BITS = 2048
# The end of the year 9999, the last one that Python has.
LATEST = 253_402_300_799
LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"
LOGOUT_TYPES = ("logout+jwt", "application/logout+jwt", "jwt", "")
ID_TOKEN_TYPES = ("jwt", "")

# Asymmetric ones only, each with the keys that it works with: type, and curves if they have any. With symmetric ones
# everybody who knows the client secret could make tokens.
ALGORITHMS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    **{f"{kind}{bits}": ("RSA", ()) for kind in ("RS", "PS") for bits in (256, 384, 512)},
    "ES256": ("EC", ("P-256",)),
    "ES384": ("EC", ("P-384",)),
    "ES512": ("EC", ("P-521",)),
    "EdDSA": ("OKP", ("Ed25519", "Ed448")),
}
_READERS: Mapping[str, Any] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}
# The public members; anything else of a key is not read.
_MEMBERS: Mapping[str, tuple[str, ...]] = {
    "RSA": ("kty", "n", "e"),
    "EC": ("kty", "crv", "x", "y"),
    "OKP": ("kty", "crv", "x"),
}
_REASONS: Mapping[type[Exception], str] = {
    jwt.ExpiredSignatureError: "expired",
    jwt.ImmatureSignatureError: "not_yet_valid",
    jwt.InvalidIssuedAtError: "not_yet_valid",
    jwt.InvalidIssuerError: "issuer",
    jwt.InvalidAudienceError: "audience",
    jwt.MissingRequiredClaimError: "incomplete",
    jwt.InvalidSignatureError: "signature",
}
_FAULTS = (jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError)


class TokenRefused(Exception):
    """A token that proves nothing. ``reason`` is a word for the log."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class UnknownKey(TokenRefused):
    """The provider's keys, as far as they are known, have none of this name. It may have new ones."""

    def __init__(self) -> None:
        super().__init__("unknown_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyingKey:
    kid: str
    kind: str
    curve: str
    # The only algorithm that the provider uses it with; empty: any that fits.
    algorithm: str
    key: Any = field(repr=False)

    def fits(self, algorithm: str) -> bool:
        kind, curves = ALGORITHMS[algorithm]
        is_of_kind = self.kind == kind and (not curves or self.curve in curves)
        return is_of_kind and self.algorithm in ("", algorithm)


def read_keys(document: JsonObject) -> list[VerifyingKey]:
    """The keys of a JWK Set (RFC 7517) that can verify tokens. Others are left out."""
    listed = document.get("keys")
    entries = listed[:MOST_KEYS] if isinstance(listed, list) else []
    return [key for entry in entries if (key := _read_key(entry)) is not None]


def _read_key(entry: object) -> VerifyingKey | None:
    if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
        return None
    operations = entry.get("key_ops", ["verify"])
    kind, algorithm = entry.get("kty"), entry.get("alg", "")
    if not isinstance(kind, str) or not isinstance(algorithm, str):
        return None
    if not isinstance(operations, list) or "verify" not in operations or kind not in _READERS:
        return None
    if algorithm and algorithm not in ALGORITHMS:
        return None
    try:
        public = {name: entry[name] for name in _MEMBERS[kind]}
        key = _READERS[kind].from_jwk(json.dumps(public))
    except (KeyError, *_FAULTS):
        return None
    if kind == "RSA" and key.key_size < LEAST_RSA_BITS:
        return None
    return VerifyingKey(
        kid=str(entry.get("kid", "")),
        kind=kind,
        curve=str(entry.get("crv", "")),
        algorithm=algorithm,
        key=key,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The properties that every token of a provider must have. ``algorithms``: those that the provider says it uses;
    empty: it doesn't say."""

    issuer: str
    client_id: str
    keys: Sequence[VerifyingKey]
    algorithms: Sequence[str] = ()


def check_id_token(
    token: str, expected: Expected, *, nonce: str, access_token: str = ""
) -> JsonObject:
    """The claims of a valid ID token for the sign-in with this nonce. Raises ``TokenRefused``."""
    claims = _verified(
        token, expected, types=ID_TOKEN_TYPES, needs=("iss", "sub", "aud", "exp", "iat", "nonce")
    )
    given = claims["nonce"]
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), nonce.encode()):
        raise TokenRefused("nonce")
    if not is_subject(claims["sub"]):
        raise TokenRefused("subject")
    if "events" in claims:
        raise TokenRefused("kind")
    _check_access_token(token, claims, access_token)
    return claims


def check_logout_token(token: str, expected: Expected) -> JsonObject:
    """The claims of a valid logout token. Raises ``TokenRefused``."""
    claims = _verified(
        token, expected, types=LOGOUT_TYPES, needs=("iss", "aud", "exp", "iat", "jti", "events")
    )
    events = claims["events"]
    if not isinstance(events, dict) or not isinstance(events.get(LOGOUT_EVENT), dict):
        raise TokenRefused("kind")
    # An ID token has one, and must not work as a logout token.
    if "nonce" in claims:
        raise TokenRefused("nonce")
    if not isinstance(claims["jti"], str) or not 0 < len(claims["jti"]) <= SUBJECT_LENGTH:
        raise TokenRefused("incomplete")
    named = [claims[name] for name in ("sub", "sid") if name in claims]
    if not named or not all(map(is_subject, named)):
        raise TokenRefused("subject")
    return claims


def is_subject(value: object) -> bool:
    """Returns whether the value can name a person or a session."""
    return isinstance(value, str) and 0 < len(value) <= SUBJECT_LENGTH and value.isprintable()


def _verified(
    token: str, expected: Expected, *, types: Sequence[str], needs: Sequence[str]
) -> JsonObject:
    if len(token) > TOKEN_LENGTH:
        raise TokenRefused("too_long")
    try:
        # PyJWT refuses extensions that a token calls critical, such as an unencoded payload (RFC 7797).
        header = jwt.get_unverified_header(token)
    except _FAULTS:
        raise TokenRefused("malformed") from None
    key, algorithm = _key_for(header, expected)
    kind = header.get("typ", "")
    if not isinstance(kind, str) or kind.lower() not in types:
        raise TokenRefused("kind")
    try:
        claims: JsonObject = jwt.decode(
            token,
            key=key.key,
            algorithms=[algorithm],
            audience=expected.client_id,
            issuer=expected.issuer,
            leeway=SKEW_SECONDS,
            options={"require": list(needs)},
        )
        _check_values(claims)
    except _FAULTS as error:
        raise TokenRefused(_REASONS.get(type(error), "malformed")) from None
    _check_party(claims, expected.client_id)
    return claims


def _check_values(claims: JsonObject) -> None:
    """Numbers that Python knows and nothing else does, and letters that no database stores: PyJWT lets them through.
    Raises ``ValueError``."""
    for name in ("exp", "iat", "nbf"):
        if not 0 <= int(claims.get(name, 0)) <= LATEST:
            raise ValueError(name)
    # Raises ``UnicodeEncodeError`` for half of a pair of surrogates.
    json.dumps(claims, ensure_ascii=False).encode()


def _key_for(header: Mapping[str, object], expected: Expected) -> tuple[VerifyingKey, str]:
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise TokenRefused("algorithm")
    if expected.algorithms and algorithm not in expected.algorithms:
        raise TokenRefused("algorithm")
    named = [key for key in expected.keys if kid is None or key.kid == kid]
    if not named:
        raise UnknownKey
    fitting = [key for key in named if key.fits(algorithm)]
    if len(fitting) != 1:
        # Without a name, only one key may fit.
        raise TokenRefused("algorithm" if not fitting else "unknown_key")
    return fitting[0], algorithm


def _check_party(claims: JsonObject, client_id: str) -> None:
    """A token for several clients says which of them it was made for."""
    audience, party = claims["aud"], claims.get("azp")
    if party is not None and party != client_id:
        raise TokenRefused("party")
    if isinstance(audience, list) and set(audience) != {client_id} and party is None:
        raise TokenRefused("party")


def _check_access_token(token: str, claims: JsonObject, access_token: str) -> None:
    """The access token came with this ID token, if the latter has its hash (section 3.1.3.8)."""
    given = claims.get("at_hash")
    if given is None or not access_token:
        return
    algorithm = str(jwt.get_unverified_header(token)["alg"])
    if algorithm == "EdDSA":
        # The hash depends on the curve, and libraries disagree about it. TLS protects the access token here.
        return
    digest = hashlib.new(f"sha{algorithm[-3:]}", access_token.encode()).digest()
    half = base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=")
    if not isinstance(given, str) or not hmac.compare_digest(half, given.encode()):
        raise TokenRefused("access_token")
