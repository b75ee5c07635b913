"""ID tokens and logout tokens: what is accepted, and a table of attacks with the reason that each gets."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from chat.identity.tokens import (
    ALGORITHMS,
    Expected,
    TokenRefused,
    UnknownKey,
    check_id_token,
    check_logout_token,
    read_keys,
)
from tests.identity.signing import (
    CLIENT,
    ISSUER,
    NONCE,
    Signer,
    claims,
    logout_claims,
    part,
    signer,
    unsigned,
)


def expected(*signers: Signer, algorithms: tuple[str, ...] = ()) -> Expected:
    keys = read_keys({"keys": [each.jwk for each in signers or (signer(),)]})
    return Expected(issuer=ISSUER, client_id=CLIENT, keys=keys, algorithms=algorithms)


def reason_of(token: str, of: Expected | None = None, **more: Any) -> str:
    try:
        check_id_token(token, of or expected(), nonce=NONCE, **more)
    except TokenRefused as refused:
        return refused.reason
    return "accepted"


def hmac_token(secret: bytes, **header: Any) -> str:
    """Signed with a text that everybody knows, as if it were a shared secret."""
    signed = f"{part({'alg': 'HS256', 'kid': 'first', **header})}.{part(claims())}"
    mac = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
    return f"{signed}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"


def public_pem() -> bytes:
    public = signer().private.public_key()
    return public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def with_payload(token: str, body: object) -> str:
    head, _, signature = token.split(".")
    return f"{head}.{part(body)}.{signature}"


@pytest.mark.parametrize("algorithm", sorted(ALGORITHMS))
def test_every_asymmetric_algorithm_is_accepted(algorithm: str) -> None:
    own = signer(f"key-{algorithm}", algorithm)

    found = check_id_token(own.sign(claims()), expected(own, signer()), nonce=NONCE)

    assert found["sub"] == "sub-of-ana"


NOW = int(time.time())
MINUTE = 60
# Each attack or fault: a token, and the word for the log.
ATTACKS: dict[str, tuple[Callable[[], str], str]] = {
    "unsigned": (lambda: unsigned(claims()), "algorithm"),
    "unsigned with key": (lambda: unsigned(claims(), kid="first"), "algorithm"),
    "unsigned in capitals": (lambda: unsigned(claims(), alg="NONE"), "algorithm"),
    "hmac of public key": (lambda: hmac_token(public_pem()), "algorithm"),
    "hmac of client id": (lambda: hmac_token(CLIENT.encode()), "algorithm"),
    "algorithm is a list": (lambda: unsigned(claims(), alg=["RS256"]), "algorithm"),
    "other signature scheme": (lambda: signer().sign(claims(), alg="PS256"), "algorithm"),
    "other hash": (lambda: signer().sign(claims(), alg="RS512"), "algorithm"),
    "key of another": (
        lambda: Signer("first", "RS256", signer("stranger").private).sign(claims()),
        "signature",
    ),
    "unknown key": (lambda: signer("stranger").sign(claims()), "unknown_key"),
    "key in the header": (
        lambda: signer("stranger").sign(claims(), kid="first", jwk=signer("stranger").jwk),
        "signature",
    ),
    "address of keys in the header": (
        lambda: signer("stranger").sign(claims(), kid="first", jku="https://evil.example/keys"),
        "signature",
    ),
    "changed claims": (
        lambda: with_payload(signer().sign(claims()), claims(sub="sub-of-the-boss")),
        "signature",
    ),
    "without signature": (lambda: signer().sign(claims()).rpartition(".")[0] + ".", "signature"),
    "two parts": (lambda: signer().sign(claims()).rpartition(".")[0], "malformed"),
    "no token": (lambda: "hello", "malformed"),
    "empty": (lambda: "", "malformed"),
    "huge": (lambda: "a" * 100_000, "too_long"),
    "wrong issuer": (lambda: signer().sign(claims(iss="https://evil.example")), "issuer"),
    "issuer with a slash": (lambda: signer().sign(claims(iss=ISSUER + "/")), "issuer"),
    "no issuer": (lambda: signer().sign(claims(iss=None)), "incomplete"),
    "wrong audience": (lambda: signer().sign(claims(aud="another")), "audience"),
    "no audience": (lambda: signer().sign(claims(aud=None)), "incomplete"),
    "no audiences": (lambda: signer().sign(claims(aud=[])), "incomplete"),
    "several audiences without party": (
        lambda: signer().sign(claims(aud=[CLIENT, "another"])),
        "party",
    ),
    "another party": (lambda: signer().sign(claims(azp="another")), "party"),
    "several audiences, another party": (
        lambda: signer().sign(claims(aud=[CLIENT, "another"], azp="another")),
        "party",
    ),
    "expired": (
        lambda: signer().sign(claims(exp=int(time.time()) - 2 * MINUTE)),
        "expired",
    ),
    "never expires": (lambda: signer().sign(claims(exp=None)), "incomplete"),
    "expires in words": (lambda: signer().sign(claims(exp="tomorrow")), "malformed"),
    "expires at infinity": (lambda: signer().sign(claims(exp=float("inf"))), "malformed"),
    "issued in the future": (
        lambda: signer().sign(claims(iat=int(time.time()) + 2 * MINUTE)),
        "not_yet_valid",
    ),
    "not valid yet": (
        lambda: signer().sign(claims(nbf=int(time.time()) + 2 * MINUTE)),
        "not_yet_valid",
    ),
    "no time of issue": (lambda: signer().sign(claims(iat=None)), "incomplete"),
    "expires after the last year": (lambda: signer().sign(claims(exp=10**400)), "malformed"),
    "issued before the first year": (lambda: signer().sign(claims(iat=-(10**400))), "malformed"),
    "valid since before the first year": (lambda: signer().sign(claims(nbf=-1)), "malformed"),
    "half of a letter": (lambda: signer().sign(claims(name="\ud800")), "malformed"),
    "replayed nonce": (lambda: signer().sign(claims(nonce="nonce-of-another")), "nonce"),
    "no nonce": (lambda: signer().sign(claims(nonce=None)), "incomplete"),
    "nonce is a list": (lambda: signer().sign(claims(nonce=[NONCE])), "nonce"),
    "no subject": (lambda: signer().sign(claims(sub=None)), "incomplete"),
    "empty subject": (lambda: signer().sign(claims(sub="")), "subject"),
    "long subject": (lambda: signer().sign(claims(sub="a" * 256)), "subject"),
    "logout token": (lambda: signer().sign(logout_claims()), "incomplete"),
    "logout token with nonce": (lambda: signer().sign(logout_claims(nonce=NONCE)), "kind"),
    "type of a logout token": (lambda: signer().sign(claims(), typ="logout+jwt"), "kind"),
    "type of an access token": (lambda: signer().sign(claims(), typ="at+jwt"), "kind"),
    "critical extension": (
        lambda: f"{part({'alg': 'RS256', 'kid': 'first', 'crit': ['b64'], 'b64': False})}.e30.AA",
        "malformed",
    ),
    "claims are a list": (lambda: with_payload(signer().sign(claims()), [1]), "signature"),
    "deep": (
        lambda: f"{part({'alg': 'RS256', 'kid': 'first'})}.{part('x')}.{'A' * 342}",
        "signature",
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_is_refused(name: str) -> None:
    make, reason = ATTACKS[name]

    assert reason_of(make()) == reason


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": NOW - 30},
        {"iat": NOW + 30},
        {"aud": [CLIENT]},
        {"aud": [CLIENT, "account"], "azp": CLIENT},
        {"azp": CLIENT},
    ],
)
def test_small_skew_and_own_party_are_accepted(changes: dict[str, Any]) -> None:
    now = int(time.time())
    moved = {
        name: value - NOW + now if isinstance(value, int) else value
        for name, value in changes.items()
    }

    assert reason_of(signer().sign(claims(**moved))) == "accepted"


def test_provider_that_signs_with_one_algorithm_has_no_other() -> None:
    own = signer("curve", "ES256")

    assert reason_of(own.sign(claims()), expected(own, algorithms=("RS256",))) == "algorithm"
    assert reason_of(own.sign(claims()), expected(own, algorithms=("ES256",))) == "accepted"


def test_key_without_algorithm_takes_those_of_its_kind() -> None:
    jwk = {**signer().jwk, "alg": ""}
    keys = Expected(issuer=ISSUER, client_id=CLIENT, keys=read_keys({"keys": [jwk]}))

    assert reason_of(signer().sign(claims(), alg="PS384"), keys) == "accepted"
    assert reason_of(signer("c", "ES256").sign(claims(), kid="first"), keys) == "algorithm"


def test_token_without_key_needs_the_only_one() -> None:
    def anonymous(own: Signer) -> str:
        return jwt.encode(claims(), own.private, algorithm=own.algorithm)

    assert reason_of(anonymous(signer())) == "accepted"
    assert reason_of(anonymous(signer()), expected(signer(), signer("other"))) == "unknown_key"


def test_unknown_key_is_told_apart() -> None:
    with pytest.raises(UnknownKey):
        check_id_token(signer("new").sign(claims()), expected(), nonce=NONCE)


def test_access_token_has_to_be_the_one_of_the_hash() -> None:
    half = hashlib.sha256(b"access").digest()[:16]
    own = base64.urlsafe_b64encode(half).rstrip(b"=").decode()

    assert reason_of(signer().sign(claims(at_hash=own)), access_token="access") == "accepted"
    assert reason_of(signer().sign(claims(at_hash=own)), access_token="other") == "access_token"


def test_unsuitable_keys_are_left_out() -> None:
    short = rsa.generate_private_key(65537, 1024)
    weak = Signer("weak", "RS256", short)
    usual = signer().jwk

    keys = read_keys(
        {
            "keys": [
                usual,
                weak.jwk,
                {"kty": "oct", "kid": "shared", "k": "c2VjcmV0"},
                {**usual, "use": "enc"},
                {**usual, "key_ops": ["encrypt"]},
                {**usual, "alg": "RSA-OAEP"},
                {**usual, "alg": "HS256"},
                {**usual, "n": "!!"},
                {"kty": ["RSA"]},
                "key",
                None,
            ]
        }
    )

    assert [key.kid for key in keys] == ["first"]
    assert read_keys({"keys": "none"}) == read_keys({}) == []


def test_private_members_are_not_read() -> None:
    with_private = {**signer().jwk, "d": "AA", "p": "AA", "q": "AA"}

    (key,) = read_keys({"keys": [with_private]})

    assert not hasattr(key.key, "private_numbers")


# --- logout tokens ------------------------------------------------------------------------------------

EVENT = "http://schemas.openid.net/event/backchannel-logout"
LOGOUT_ATTACKS: dict[str, tuple[Callable[[], str], str]] = {
    "unsigned": (lambda: unsigned(logout_claims(), typ="logout+jwt"), "algorithm"),
    "id token": (lambda: signer().sign(claims(jti="1")), "incomplete"),
    "id token with events": (lambda: signer().sign(claims(jti="1", events={EVENT: {}})), "nonce"),
    "nonce": (lambda: signer().sign(logout_claims(nonce=NONCE)), "nonce"),
    "other type": (lambda: signer().sign(logout_claims(), typ="at+jwt"), "kind"),
    "other event": (lambda: signer().sign(logout_claims(events={"x": {}})), "kind"),
    "event is no object": (lambda: signer().sign(logout_claims(events={EVENT: 1})), "kind"),
    "events are a list": (lambda: signer().sign(logout_claims(events=[EVENT])), "kind"),
    "no events": (lambda: signer().sign(logout_claims(events=None)), "incomplete"),
    "nobody": (lambda: signer().sign(logout_claims(sub=None, sid=None)), "subject"),
    "session is a list": (lambda: signer().sign(logout_claims(sid=["1"])), "subject"),
    "no id": (lambda: signer().sign(logout_claims(jti=None)), "incomplete"),
    "wrong audience": (lambda: signer().sign(logout_claims(aud="another")), "audience"),
    "wrong issuer": (lambda: signer().sign(logout_claims(iss="https://evil.example")), "issuer"),
    "expired": (
        lambda: signer().sign(logout_claims(exp=int(time.time()) - 2 * MINUTE)),
        "expired",
    ),
    "no expiry": (lambda: signer().sign(logout_claims(exp=None)), "incomplete"),
}


@pytest.mark.parametrize("name", LOGOUT_ATTACKS)
def test_forged_logout_is_refused(name: str) -> None:
    make, reason = LOGOUT_ATTACKS[name]

    with pytest.raises(TokenRefused) as refused:
        check_logout_token(make(), expected())

    assert refused.value.reason == reason


@pytest.mark.parametrize("changes", [{}, {"sid": None}, {"sub": None}])
@pytest.mark.parametrize("kind", ["logout+jwt", "JWT"])
def test_logout_token_names_a_session_or_a_person(kind: str, changes: dict[str, Any]) -> None:
    token = signer().sign(logout_claims(**changes), typ=kind)

    assert check_logout_token(token, expected())["jti"] == "token-1"


def test_keys_survive_any_json() -> None:
    for value in (None, 1, "x", [], {}, {"keys": [{"kty": "RSA", "n": 1, "e": {}}]}):
        assert read_keys(json.loads(json.dumps({"keys": value}))) == []
