"""Where people sign in for a server: documents, their order, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from chat.tools.sign_in import discovery, documents
from chat.tools.sign_in.discovery import Discovered, discover
from chat.tools.sign_in.metadata import (
    MIXED,
    NO_ISSUER,
    NO_METADATA,
    NO_PKCE,
    UNSAFE,
    WRONG_RESOURCE,
    SignInFailed,
    challenge_of,
    checked_address,
    covers,
    is_encrypted,
    is_of_whole_origin,
    issuer_documents,
    origin_of,
    read_issuer,
    read_resource,
    resource_documents,
)
from chat.upstreams.addresses import AddressPolicy
from chat.upstreams.client import open_client
from tests.tools.sign_in.oauth_server import (
    OAuthServer,
    Reply,
    Seen,
    json_reply,
    oauth_server,
    slow,
)

RESOURCE = "/.well-known/oauth-protected-resource"
ISSUER = "/.well-known/oauth-authorization-server"
OPENID = "/.well-known/openid-configuration"


async def found_at(oauth: OAuthServer) -> Discovered:
    async with open_client(AddressPolicy.parse("any")) as client:
        return await discover(client, oauth.mcp)


async def problem_at(oauth: OAuthServer) -> str:
    with pytest.raises(SignInFailed) as caught:
        await found_at(oauth)
    return str(caught.value)


def missing(request: Seen) -> Reply:
    return 404, {}, b""


# --- order ------------------------------------------------------------------------------------------


def _named(oauth: OAuthServer) -> None:
    """The challenge names a document with another path."""
    oauth.answers["/mcp"] = lambda request: (
        401,
        {"WWW-Authenticate": f'Bearer realm="x", resource_metadata="{oauth.url}/elsewhere"'},
        b"",
    )
    oauth.answers["/elsewhere"] = lambda request: json_reply(oauth._resource())


def _named_elsewhere(oauth: OAuthServer) -> None:
    """Another origin is not asked."""
    oauth.answers["/mcp"] = lambda request: (
        401,
        {"WWW-Authenticate": 'Bearer resource_metadata="http://169.254.169.254/latest/meta-data"'},
        b"",
    )


def _without_challenge(oauth: OAuthServer) -> None:
    oauth.answers["/mcp"] = lambda request: (405, {}, b"")


def _at_the_root(oauth: OAuthServer) -> None:
    oauth.answers[f"{RESOURCE}/mcp"] = missing
    oauth.answers[RESOURCE] = lambda request: json_reply(
        {**oauth._resource(), "resource": oauth.url}
    )


def _openid(oauth: OAuthServer) -> None:
    oauth.answers[ISSUER] = missing
    oauth.answers[OPENID] = lambda request: json_reply(oauth._issuer())


def _tenant(oauth: OAuthServer, path: str) -> None:
    oauth.resource["authorization_servers"] = [f"{oauth.url}/t1"]
    oauth.issuer["issuer"] = f"{oauth.url}/t1"
    oauth.answers[path] = lambda request: json_reply(oauth._issuer())


def _tenant_of(path: str) -> Callable[[OAuthServer], None]:
    return lambda oauth: _tenant(oauth, path)


def _second_issuer(oauth: OAuthServer) -> None:
    oauth.resource["authorization_servers"] = ["http://127.0.0.1:9/", oauth.url]


@pytest.mark.parametrize(
    ("arrange", "asked"),
    [
        (lambda oauth: None, ["/mcp", f"{RESOURCE}/mcp", ISSUER]),
        (_named, ["/mcp", "/elsewhere", ISSUER]),
        (_named_elsewhere, ["/mcp", f"{RESOURCE}/mcp", ISSUER]),
        (_without_challenge, ["/mcp", f"{RESOURCE}/mcp", ISSUER]),
        (_at_the_root, ["/mcp", f"{RESOURCE}/mcp", RESOURCE, ISSUER]),
        (_openid, ["/mcp", f"{RESOURCE}/mcp", ISSUER, OPENID]),
        (_tenant_of(f"{ISSUER}/t1"), ["/mcp", f"{RESOURCE}/mcp", f"{ISSUER}/t1"]),
        (
            _tenant_of(f"{OPENID}/t1"),
            ["/mcp", f"{RESOURCE}/mcp", f"{ISSUER}/t1", f"{OPENID}/t1"],
        ),
        (
            _tenant_of(f"/t1{OPENID}"),
            ["/mcp", f"{RESOURCE}/mcp", f"{ISSUER}/t1", f"{OPENID}/t1", f"/t1{OPENID}"],
        ),
        (_second_issuer, ["/mcp", f"{RESOURCE}/mcp", ISSUER]),
    ],
    ids=[
        *("usual", "named", "named at another origin", "no challenge", "at the root", "openid"),
        *("tenant", "tenant, openid", "tenant, openid appended", "second issuer"),
    ],
)
async def test_documents_are_asked_for_in_order(
    oauth: OAuthServer, arrange: Callable[[OAuthServer], None], asked: list[str]
) -> None:
    arrange(oauth)

    found = await found_at(oauth)

    assert found.issuer.token_endpoint == f"{oauth.url}/token"
    assert [request.path for request in oauth.requests] == asked


# --- what is refused --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "issuer", "sentence"),
    [
        ({"resource": "http://evil.test/mcp"}, {}, WRONG_RESOURCE),
        ({"resource": None}, {}, WRONG_RESOURCE),
        ({"resource": ["x"]}, {}, WRONG_RESOURCE),
        ({"authorization_servers": None}, {}, NO_METADATA),
        ({"authorization_servers": []}, {}, NO_METADATA),
        ({"authorization_servers": [7, "javascript:alert(1)"]}, {}, NO_METADATA),
        ({}, {"issuer": "https://evil.test"}, NO_ISSUER),
        ({}, {"issuer": None}, NO_ISSUER),
        ({}, {"authorization_endpoint": "javascript:alert(1)"}, NO_ISSUER),
        ({}, {"authorization_endpoint": "https://a@b.test/"}, NO_ISSUER),
        ({}, {"token_endpoint": None}, NO_ISSUER),
        ({}, {"token_endpoint": "https://x.test/\r\nX: 1"}, NO_ISSUER),
        # Codes of another server would come back to this one.
        (
            {},
            {
                "authorization_endpoint": "http://honest.test/authorize",
                "authorization_response_iss_parameter_supported": None,
            },
            MIXED,
        ),
        (
            {},
            {
                "token_endpoint": "http://honest.test/token",
                "authorization_response_iss_parameter_supported": "true",
            },
            MIXED,
        ),
        ({}, {"code_challenge_methods_supported": None}, NO_PKCE),
        ({}, {"code_challenge_methods_supported": ["plain"]}, NO_PKCE),
        ({}, {"code_challenge_methods_supported": "S256"}, NO_PKCE),
    ],
)
async def test_wrong_documents_are_refused(
    oauth: OAuthServer,
    resource: Mapping[str, object],
    issuer: Mapping[str, object],
    sentence: str,
) -> None:
    oauth.resource.update(resource)
    oauth.issuer.update(issuer)

    assert await problem_at(oauth) == sentence


def _body(body: bytes, status: int = 200) -> Callable[[Seen], Reply]:
    return lambda request: (status, {"Content-Type": "application/json"}, body)


@pytest.mark.parametrize(
    "reply",
    [
        _body(b"{}"),
        _body(b"[1]"),
        _body(b"\xff\xfe"),
        _body(b"[" * 20_000),
        _body(b'{"resource": "', 200),
        _body(b" " * 5_000_000),
        _body(b"{}", 500),
        lambda request: (302, {"Location": "http://169.254.169.254/"}, b""),
    ],
    ids=["empty", "list", "bytes", "deep", "cut", "large", "failing", "redirect"],
)
async def test_hostile_bodies_end_the_search(
    oauth: OAuthServer, reply: Callable[[Seen], Reply]
) -> None:
    for path in (f"{RESOURCE}/mcp", RESOURCE):
        oauth.answers[path] = reply

    assert await problem_at(oauth)
    assert all("169.254" not in request.path for request in oauth.requests)


async def test_slow_server_is_not_waited_for(
    oauth: OAuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "REQUEST_SECONDS", 0.2)

    def waits(request: Seen) -> Reply:
        slow(2)(request)
        return missing(request)

    oauth.answers[f"{RESOURCE}/mcp"] = waits

    assert await problem_at(oauth) == documents.UNREACHABLE


async def test_many_slow_answers_have_one_limit(
    oauth: OAuthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "DISCOVERY_SECONDS", 0.3)

    def waits(request: Seen) -> Reply:
        slow(0.25)(request)
        return missing(request)

    oauth.answers.update({f"{RESOURCE}/mcp": waits, RESOURCE: waits})

    assert await problem_at(oauth) == documents.UNREACHABLE


async def test_documents_lead_to_no_forbidden_address(oauth: OAuthServer) -> None:
    allowed = AddressPolicy.parse(f"127.0.0.1/32:{oauth.port}")
    with oauth_server() as hidden:
        oauth.resource["authorization_servers"] = [hidden.url]
        async with open_client(allowed) as client:
            with pytest.raises(SignInFailed):
                await discover(client, oauth.mcp)

        assert len(oauth.requests) == 2
        assert hidden.requests == []


def test_encrypted_server_leads_to_no_plain_address() -> None:
    document = {
        "issuer": "https://a.test",
        "authorization_endpoint": "https://a.test/authorize",
        "token_endpoint": "http://a.test/token",
        "code_challenge_methods_supported": ["S256"],
    }
    with pytest.raises(SignInFailed, match="without encryption") as caught:
        read_issuer(document, "https://a.test", is_secure=True)
    assert str(caught.value) == UNSAFE


def test_scheme_is_compared_in_lower_case() -> None:
    document = {
        "issuer": "HTTPS://a.test",
        "authorization_endpoint": "HTTPS://a.test/authorize",
        "token_endpoint": "https://A.test/token",
        "code_challenge_methods_supported": ["S256"],
    }

    assert read_issuer(document, "HTTPS://a.test", is_secure=True).issuer == "HTTPS://a.test"
    assert is_encrypted("HTTPS://host/mcp")
    assert not is_encrypted("http://host/mcp")


ROOT = "https://a.test/.well-known/oauth-protected-resource"


@pytest.mark.parametrize(
    ("resource", "server", "document", "expected"),
    [
        ("https://a.test/mcp", "https://a.test/mcp", f"{ROOT}/mcp", True),
        ("https://A.test:443/mcp/", "https://a.test/mcp", f"{ROOT}/mcp", True),
        ("https://a.test/mcp", "https://a.test/mcp", "https://a.test/elsewhere", True),
        ("https://a.test", "https://a.test/mcp", ROOT, True),
        ("https://a.test/", "https://a.test/mcp", ROOT, True),
        ("https://a.test", "https://a.test/mcp", f"{ROOT}/mcp", False),
        ("https://a.test", "https://a.test/mcp", "https://a.test/elsewhere", False),
        ("https://a.test", "https://a.test/mcp", f"{ROOT}?x=1", False),
        ("https://a.test/a", "https://a.test/a/mcp", ROOT, False),
        ("https://a.test/?x=1", "https://a.test/mcp", ROOT, False),
        ("https://a.test/mcp/x", "https://a.test/mcp", ROOT, False),
        ("https://b.test/mcp", "https://a.test/mcp", f"{ROOT}/mcp", False),
        ("https://a.test/mcp", "https://a.test/mcp?team=2", f"{ROOT}/mcp", False),
    ],
)
def test_document_describes_the_address_that_it_is_for(
    resource: str, server: str, document: str, expected: bool
) -> None:
    body = {"resource": resource, "authorization_servers": ["https://a.test"]}
    is_of_origin = is_of_whole_origin(document)

    if expected:
        assert read_resource(body, server, is_of_origin=is_of_origin).address == resource
    else:
        with pytest.raises(SignInFailed, match="another address"):
            read_resource(body, server, is_of_origin=is_of_origin)


# --- parts ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "server", "expected"),
    [
        ("https://a.test/mcp", "https://a.test/mcp", True),
        ("https://A.test:443/mcp/", "https://a.test/mcp", True),
        ("https://a.test", "https://a.test/mcp", True),
        ("https://a.test/mcp", "https://a.test/mcp/x", True),
        ("https://a.test/mcp", "https://a.test/mcpx", False),
        ("https://a.test/mcp/x", "https://a.test/mcp", False),
        ("http://a.test/mcp", "https://a.test/mcp", False),
        ("https://a.test:8443/mcp", "https://a.test/mcp", False),
        ("https://a.test.evil.test/mcp", "https://a.test/mcp", False),
        ("https://a.test/mcp?team=1", "https://a.test/mcp?team=2", False),
    ],
)
def test_tokens_for_one_address_are_for_no_other(
    resource: str, server: str, expected: bool
) -> None:
    assert covers(resource, server) is expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ('Bearer resource_metadata="https://a.test/x", scope="a b"', {"scope": "a b"}),
        ("bearer error=invalid_token", {"error": "invalid_token"}),
        ('Bearer scope="a\\"b"', {"scope": 'a"b'}),
        ('Basic realm="x"', {}),
        ("Bearer", {}),
        ("Bearer " + "=" * 100_000, {}),
        ('Bearer scope="' + "a" * 100_000, {}),
    ],
)
def test_challenges(header: str, expected: Mapping[str, str]) -> None:
    found = challenge_of([(b"WWW-Authenticate", header.encode())])

    assert {name: found.get(name) for name in expected} == expected
    assert found or not expected


@pytest.mark.parametrize(
    "value",
    ["", 7, None, "ftp://a.test", "//a.test", "https://", "https://a b", "https://a.test/#x"],
)
def test_values_that_are_no_addresses(value: object) -> None:
    assert checked_address(value) == ""
    assert origin_of("http://[") == ""


def test_addresses_of_documents() -> None:
    assert resource_documents("https://a.test/mcp?x=1")[0] == (
        "https://a.test/.well-known/oauth-protected-resource/mcp?x=1"
    )
    assert resource_documents("https://a.test/") == [f"https://a.test{RESOURCE}"]
    assert issuer_documents("https://a.test/") == [
        f"https://a.test{ISSUER}",
        f"https://a.test{OPENID}",
    ]
