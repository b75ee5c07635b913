"""An authorization server and an MCP server that wants its tokens, in one, over real sockets.

Refresh tokens rotate: the second use of one revokes its whole family. Tests change single documents and answers.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

from tests.tools.mcp.servers import DISCOVERED, listed, text_result, tool_of

Reply = tuple[int, Mapping[str, str], bytes]


def json_reply(value: object, status: int = 200, **headers: str) -> Reply:
    return status, {"Content-Type": "application/json", **headers}, json.dumps(value).encode()


@dataclass
class Family:
    """The tokens that came from one sign-in."""

    client_id: str
    resource: str
    person: str
    refresh: str = ""
    access: set[str] = field(default_factory=set)
    is_revoked: bool = False


@dataclass
class Seen:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode()))

    @property
    def json(self) -> Any:
        return json.loads(self.body or b"{}")


class OAuthServer:
    """``answers`` replaces what a path answers; ``resource`` and ``issuer`` are members that its documents get, or lose if
    the value is ``None``. ``seconds``: how long access tokens are valid."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[Seen], Reply]] = {}
        self.resource: dict[str, object] = {}
        self.issuer: dict[str, object] = {}
        self.seconds = 3600
        self.names_issuer = True
        self.before_token: Callable[[Seen], None] = lambda request: None
        self.requests: list[Seen] = []
        self.families: list[Family] = []
        self.codes: dict[str, dict[str, str]] = {}
        self.used_refresh: set[str] = set()
        self.calls: list[str] = []
        self._lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server._serve(self)

            do_POST = do_GET

            def log_message(self, *args: object) -> None:
                """Nothing is written."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.port = self._http.server_port
        self.url = f"http://127.0.0.1:{self.port}"
        self.mcp = f"{self.url}/mcp"
        threading.Thread(target=self._http.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    # --- what tests look at -----------------------------------------------------------------------

    def sent(self, path: str) -> list[Seen]:
        return [request for request in self.requests if request.path == path]

    @property
    def refreshes(self) -> list[Seen]:
        found = self.sent("/token")
        return [each for each in found if each.form.get("grant_type") == "refresh_token"]

    def expire_access(self) -> None:
        """No access token is accepted any more; refresh tokens are."""
        for family in self.families:
            family.access.clear()

    def allow(self, address: str, person: str = "ana") -> str:
        """The person allows what the address asks for. Returns where the browser is sent."""
        asked = {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
        code = secrets.token_urlsafe(16)
        self.codes[code] = {**asked, "person": person}
        named = {"iss": self.url} if self.names_issuer else {}
        fields = urlencode({"code": code, "state": asked["state"], **named})
        return f"{asked['redirect_uri']}?{fields}"

    # --- answers ----------------------------------------------------------------------------------

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        length = int(handler.headers.get("Content-Length") or 0)
        parts = urlsplit(handler.path)
        request = Seen(
            handler.command,
            parts.path,
            dict(parse_qsl(parts.query)),
            {name.lower(): value for name, value in handler.headers.items()},
            handler.rfile.read(length),
        )
        self.requests.append(request)
        status, headers, body = self._answer(request)
        try:
            handler.send_response(status)
            for name, value in headers.items():
                handler.send_header(name, value)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)
        except ConnectionError:
            pass

    def _answer(self, request: Seen) -> Reply:
        if found := self.answers.get(request.path):
            return found(request)
        ours: dict[str, Callable[[Seen], Reply]] = {
            "/mcp": self._call,
            "/.well-known/oauth-protected-resource/mcp": lambda _: json_reply(self._resource()),
            "/.well-known/oauth-authorization-server": lambda _: json_reply(self._issuer()),
            "/register": self._register,
            "/authorize": self._authorize,
            "/token": self._token,
            "/revoke": self._revoke,
        }
        answer = ours.get(request.path)
        return answer(request) if answer else (404, {}, b"")

    def _resource(self) -> dict[str, object]:
        found = {"resource": self.mcp, "authorization_servers": [self.url], **self.resource}
        return {name: value for name, value in found.items() if value is not None}

    def _issuer(self) -> dict[str, object]:
        found = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "revocation_endpoint": f"{self.url}/revoke",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
            **self.issuer,
        }
        return {name: value for name, value in found.items() if value is not None}

    def _register(self, request: Seen) -> Reply:
        return json_reply({**request.json, "client_id": f"dyn-{len(self.sent('/register'))}"}, 201)

    def _authorize(self, request: Seen) -> Reply:
        """A page with one link: no automatic consent."""
        target = self.allow(f"{self.url}/authorize?{urlencode(request.query)}")
        body = f'<!doctype html><title>Sign in</title><a id="allow" href="{target}">Allow</a>'
        return 200, {"Content-Type": "text/html"}, body.replace("&", "&amp;").encode()

    def _token(self, request: Seen) -> Reply:
        self.before_token(request)
        form = request.form
        with self._lock:
            if form.get("grant_type") == "authorization_code":
                return self._by_code(form)
            return self._by_refresh(form)

    def _by_code(self, form: Mapping[str, str]) -> Reply:
        asked = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if asked is None or any(
            (
                asked["code_challenge"] != challenge,
                asked["redirect_uri"] != form.get("redirect_uri"),
                asked["client_id"] != form.get("client_id"),
                asked["resource"] != form.get("resource"),
            )
        ):
            return json_reply({"error": "invalid_grant"}, 400)
        family = Family(asked["client_id"], asked["resource"], asked["person"])
        self.families.append(family)
        return self._issue(family)

    def _by_refresh(self, form: Mapping[str, str]) -> Reply:
        token = form.get("refresh_token", "")
        if token in self.used_refresh:
            for family in self.families:
                if family.person in token:
                    family.is_revoked = True
                    family.access.clear()
        found = [each for each in self.families if each.refresh == token and not each.is_revoked]
        if not found or found[0].client_id != form.get("client_id"):
            return json_reply({"error": "invalid_grant"}, 400)
        self.used_refresh.add(token)
        return self._issue(found[0])

    def _issue(self, family: Family) -> Reply:
        access = f"access-{family.person}-{secrets.token_hex(8)}"
        family.refresh = f"refresh-{family.person}-{secrets.token_hex(8)}"
        family.access = {access}
        return json_reply(
            {
                "access_token": access,
                "refresh_token": family.refresh,
                "token_type": "Bearer",
                "expires_in": self.seconds,
            }
        )

    def _revoke(self, request: Seen) -> Reply:
        token = request.form.get("token", "")
        for family in self.families:
            if token == family.refresh or token in family.access:
                family.is_revoked = True
                family.access.clear()
        return 200, {}, b""

    # --- the protected server ---------------------------------------------------------------------

    def person_of(self, request: Seen) -> str:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        found = [family.person for family in self.families if token in family.access]
        return found[0] if found else ""

    def challenge(self) -> Reply:
        named = f"{self.url}/.well-known/oauth-protected-resource/mcp"
        return 401, {"WWW-Authenticate": f'Bearer resource_metadata="{named}"'}, b""

    def _call(self, request: Seen) -> Reply:
        person = self.person_of(request)
        if not person:
            return self.challenge()
        message = request.json
        if request.method != "POST" or "id" not in message:
            return 202, {}, b""
        results: dict[str, Callable[[], object]] = {
            "server/discover": lambda: DISCOVERED,
            "tools/list": lambda: listed(tool_of("whoami", description="Says who you are.")),
            "tools/call": lambda: self._run(person),
        }
        result = results.get(message["method"])
        if result is None:
            error = {"code": -32601, "message": "Method not found"}
            return json_reply({"jsonrpc": "2.0", "id": message["id"], "error": error})
        return json_reply({"jsonrpc": "2.0", "id": message["id"], "result": result()})

    def _run(self, person: str) -> object:
        self.calls.append(person)
        return text_result(f"You are {person}")


def slow(seconds: float) -> Callable[[Seen], None]:
    return lambda request: time.sleep(seconds)


@contextmanager
def oauth_server() -> Iterator[OAuthServer]:
    server = OAuthServer()
    try:
        yield server
    finally:
        server.close()
