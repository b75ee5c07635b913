"""Keys and tokens of a provider that signs what a test asks for, also what no provider would."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

ISSUER = "https://login.example.org/realms/main"
CLIENT = "tributary"
NONCE = "nonce-of-this-sign-in"


@dataclass(frozen=True)
class Signer:
    kid: str
    algorithm: str
    private: Any

    @property
    def jwk(self) -> dict[str, Any]:
        reader = {"R": RSAAlgorithm, "P": RSAAlgorithm}.get(self.algorithm[0], ECAlgorithm)
        reader = OKPAlgorithm if self.algorithm == "EdDSA" else reader
        public = reader.to_jwk(self.private.public_key(), as_dict=True)
        return {**public, "kid": self.kid, "use": "sig", "alg": self.algorithm}

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        headers = {"kid": self.kid, **header}
        algorithm = headers.pop("alg", self.algorithm)
        return jwt.encode(claims, self.private, algorithm=algorithm, headers=headers)


@cache
def signer(kid: str = "first", algorithm: str = "RS256") -> Signer:
    """One key for each name. RSA keys take a while."""
    if algorithm[0] in "RP":
        return Signer(kid, algorithm, rsa.generate_private_key(65537, 2048))
    if algorithm == "EdDSA":
        return Signer(kid, algorithm, ed25519.Ed25519PrivateKey.generate())
    curve = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}[algorithm]
    return Signer(kid, algorithm, ec.generate_private_key(curve()))


def claims(**changes: Any) -> dict[str, Any]:
    """Those of a valid ID token. A change to ``None`` leaves a claim out."""
    now = int(time.time())
    usual = {
        "iss": ISSUER,
        "sub": "sub-of-ana",
        "aud": CLIENT,
        "exp": now + 300,
        "iat": now,
        "nonce": NONCE,
        "email": "ana@example.org",
        "email_verified": True,
        "name": "Ana",
    }
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def logout_claims(**changes: Any) -> dict[str, Any]:
    event = {"http://schemas.openid.net/event/backchannel-logout": {}}
    return claims(
        **{
            **dict.fromkeys(("nonce", "email", "email_verified", "name")),
            "events": event,
            "jti": "token-1",
            "sid": "session-1",
            **changes,
        }
    )


def unsigned(body: dict[str, Any], **header: Any) -> str:
    return f"{part({'alg': 'none', **header})}.{part(body)}."


def part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()
