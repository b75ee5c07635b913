"""An OpenID Connect provider on the loopback that signs whatever a test wants. It lets everybody in at once."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from tests.identity.signing import Signer, signer

CLIENT = "tributary"
SECRET = "a secret: with / and %"

Claims = dict[str, Any]


@dataclass
class FakeProvider:
    """``claims`` describe the person who signs in next; ``forge`` makes another ID token of the usual claims."""

    issuer: str = ""
    signers: list[Signer] = field(default_factory=lambda: [signer()])
    claims: Claims = field(default_factory=dict)
    userinfo: Claims = field(default_factory=dict)
    # Changes of the discovery document; ``None`` leaves a member out.
    metadata: Claims = field(default_factory=dict)
    forge: Callable[[Claims], str] | None = None
    # Parameters of the answer that are sent in place of the usual ones; ``None`` leaves one out.
    answer: dict[str, str | None] = field(default_factory=dict)
    redirect_uris: list[str] = field(default_factory=list)
    clock_is_off_by: float = 0
    requests: list[str] = field(default_factory=list)
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def id_token(self, nonce: str) -> str:
        claims = self.usual_claims(nonce=nonce)
        if self.forge is not None:
            return self.forge(claims)
        return self.signers[0].sign(claims)

    def usual_claims(self, **more: Any) -> Claims:
        now = int(time.time())
        usual = {"iss": self.issuer, "aud": CLIENT, "iat": now, "exp": now + 300}
        return {**usual, **self.claims, **more}

    def logout_token(self, **changes: Any) -> str:
        event = {"http://schemas.openid.net/event/backchannel-logout": {}}
        claims = self.usual_claims(jti=str(time.time_ns()), events=event)
        for name in ("email", "email_verified", "name", "groups", "nonce"):
            claims.pop(name, None)
        claims.update(changes)
        claims = {name: value for name, value in claims.items() if value is not None}
        return self.signers[0].sign(claims, typ="logout+jwt")

    # --- its endpoints -----------------------------------------------------------------------------

    def document(self) -> Claims:
        usual = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "jwks_uri": f"{self.issuer}/keys",
            "userinfo_endpoint": f"{self.issuer}/userinfo",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "backchannel_logout_supported": True,
        }
        found = {**usual, **self.metadata}
        return {name: value for name, value in found.items() if value is not None}

    def keys(self) -> Claims:
        return {"keys": [each.jwk for each in self.signers]}

    def authorize(self, query: dict[str, str]) -> str:
        """Where the browser goes next; empty if the request is refused."""
        if query.get("client_id") != CLIENT:
            return ""
        if self.redirect_uris and query["redirect_uri"] not in self.redirect_uris:
            return ""
        if query.get("prompt") == "none":
            answer = {"error": "login_required", "state": query["state"]}
            return f"{query['redirect_uri']}?{urlencode(answer)}"
        code = f"code-{len(self.codes)}"
        self.codes[code] = query
        answer = {"code": code, "state": query["state"], "iss": self.issuer, **self.answer}
        sent = {name: value for name, value in answer.items() if value is not None}
        return f"{query['redirect_uri']}?{urlencode(sent)}"

    def token(self, fields: dict[str, str], authorization: str) -> tuple[int, Claims]:
        pair = base64.b64decode(authorization.removeprefix("Basic ")).decode()
        given = [unquote(part) for part in pair.partition(":")[::2]]
        if given != [CLIENT, SECRET]:
            return 401, {"error": "invalid_client"}
        query = self.codes.pop(fields["code"], None)
        challenge = hashlib.sha256(fields["code_verifier"].encode()).digest()
        expected = base64.urlsafe_b64encode(challenge).rstrip(b"=").decode()
        if query is None or query["code_challenge"] != expected:
            return 400, {"error": "invalid_grant"}
        if query["redirect_uri"] != fields["redirect_uri"]:
            return 400, {"error": "invalid_grant"}
        id_token = self.id_token(query["nonce"])
        return 200, {"access_token": "access", "token_type": "Bearer", "id_token": id_token}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    provider: FakeProvider

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.provider.requests.append(parts.path)
        if parts.path == "/authorize":
            place = self.provider.authorize(query)
            self._send(302 if place else 400, {}, Location=place)
        elif parts.path == "/.well-known/openid-configuration":
            self._send(200, self.provider.document())
        elif parts.path == "/keys":
            self._send(200, self.provider.keys())
        elif parts.path == "/userinfo":
            self._send(200, {"sub": self.provider.claims["sub"], **self.provider.userinfo})
        else:
            self._send(404, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        fields = {name: values[0] for name, values in parse_qs(body).items()}
        self.provider.requests.append(self.path)
        self._send(*self.provider.token(fields, self.headers.get("Authorization", "")))

    def _send(self, status: int, body: Claims, **headers: str) -> None:
        data = json.dumps(body).encode()
        self.send_response_only(status)
        self.send_header("Date", formatdate(time.time() + self.provider.clock_is_off_by))
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def serve(provider: FakeProvider) -> ThreadingHTTPServer:
    """Starts it on a free port; the caller shuts it down."""
    handler = type("Handler", (_Handler,), {"provider": provider})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    provider.issuer = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server
