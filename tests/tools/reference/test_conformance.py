"""Our client in the client scenarios of ``@modelcontextprotocol/conformance``, one by one, each in its versions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from chat.tools.sign_in import clients
from tests.runs.helpers import threads
from tests.tools.reference.conformance import listed_scenarios, run_scenario
from tests.tools.reference.product import Product

pytestmark = [pytest.mark.slow, pytest.mark.third_party]

OLDEST, OLDER, OLD, NEW = "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"
EXTENSION = "extension"

# The scenarios that pass, with their versions of the protocol.
PASSING = {
    "initialize": [OLDER, OLD],
    "tools_call": [OLDER, OLD, NEW],
    "elicitation-sep1034-client-defaults": [OLD],
    "sse-retry": [OLD],
    "request-metadata": [NEW],
    "http-standard-headers": [NEW],
    "http-custom-headers": [NEW],
    "http-invalid-tool-headers": [NEW],
    "json-schema-ref-no-deref": [NEW],
    "json-schema-2020-12-preservation": [OLD, NEW],
    "auth/metadata-default": [OLD, NEW],
    "auth/metadata-var1": [OLD, NEW],
    "auth/metadata-var2": [OLD, NEW],
    "auth/metadata-var3": [OLD, NEW],
    "auth/basic-cimd": [OLD, NEW],
    "auth/scope-from-www-authenticate": [OLD, NEW],
    "auth/scope-from-scopes-supported": [OLD, NEW],
    "auth/scope-omitted-when-undefined": [OLD, NEW],
    "auth/scope-step-up": [OLD, NEW],
    "auth/scope-retry-limit": [OLD, NEW],
    "auth/token-endpoint-auth-basic": [OLDER, OLD, NEW],
    "auth/token-endpoint-auth-post": [OLDER, OLD, NEW],
    "auth/token-endpoint-auth-none": [OLDER, OLD, NEW],
    "auth/pre-registration": [OLD, NEW],
    "auth/resource-mismatch": [NEW],
    "auth/offline-access-scope": [NEW],
    "auth/offline-access-not-supported": [NEW],
    "auth/authorization-server-migration": [NEW],
    "auth/iss-supported": [NEW],
    "auth/iss-not-advertised": [NEW],
    "auth/iss-supported-missing": [NEW],
    "auth/iss-wrong-issuer": [NEW],
    "auth/iss-unexpected": [NEW],
    "auth/iss-normalized": [NEW],
    "auth/metadata-issuer-mismatch": [NEW],
}

# The scenarios that don't pass: the check that tells, and why it is so.
NO_SUCH_GRANT = "people sign in themselves: a program of its own account uses a shared key"
NO_DPOP = "tokens are bearer tokens; DPoP (SEP-1932) is an extension"
FAILING = {
    "sep-2322-client-request-state": (
        [NEW],
        "sep-2322-client-jsonrpc-id-different",
        "each request is a connection of its own, in which the official library counts from one",
    ),
    "auth/2025-03-26-oauth-metadata-backcompat": (
        [OLDEST],
        "authorization-server-metadata",
        "servers without protected resource metadata (RFC 9728) are not supported",
    ),
    "auth/2025-03-26-oauth-endpoint-fallback": (
        [OLDEST],
        "token-request",
        "servers without protected resource metadata (RFC 9728) are not supported",
    ),
    "auth/client-credentials-jwt": ([EXTENSION], "client-credentials-grant-type", NO_SUCH_GRANT),
    "auth/client-credentials-basic": ([EXTENSION], "client-credentials-grant-type", NO_SUCH_GRANT),
    "auth/enterprise-managed-authorization": (
        [EXTENSION],
        "complete-flow-token-exchange",
        NO_SUCH_GRANT,
    ),
    "auth/wif-jwt-bearer": ([EXTENSION], "wif-assertion-verified", NO_SUCH_GRANT),
    "auth/dpop": ([EXTENSION], "sep-1932-client-token-request-proof", NO_DPOP),
    "auth/dpop-nonce": ([EXTENSION], "sep-1932-client-token-request-proof", NO_DPOP),
}

# The scenarios about skills (SEP-2640), which Tributary doesn't read: the runner has nothing to check in them.
NOT_EXERCISED = {
    f"sep-2640-client-{name}": [EXTENSION]
    for name in ("no-prefetch", "verify-digest", "verify-size", "verify-frontmatter")
}

# The checks of a time that a client on a busy machine keeps too late.
TIMED = {"sse-retry": ["client-sse-retry-timing"]}

# The words with which a sign-in is refused where the scenario has a server that must not be trusted.
OTHER_ISSUER = "The answer came from another sign-in server, so it was refused."
REFUSED = {
    "auth/resource-mismatch": "The sign-in information of the server is for another address.",
    "auth/metadata-issuer-mismatch": (
        "The sign-in server doesn’t publish valid information about itself."
    ),
    "auth/iss-supported-missing": OTHER_ISSUER,
    "auth/iss-wrong-issuer": OTHER_ISSUER,
    "auth/iss-unexpected": OTHER_ISSUER,
    "auth/iss-normalized": OTHER_ISSUER,
}

# The one address that the scenario takes for a client ID metadata document; ours is `/oauth/client-metadata.json`.
DOCUMENT = "https://conformance-test.local/client-metadata.json"


@pytest.fixture(autouse=True)
def _document(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if "auth/basic-cimd" in request.node.name:
        monkeypatch.setattr(clients, "document_address", lambda: DOCUMENT)


async def use(product: Product, url: str, context: Mapping[str, Any]) -> None:
    """Connects to the server and calls all its tools."""
    # The only field without a default that a scenario asks for.
    product.values = {"confirmed": "true"}
    if context.get("name") == "auth/pre-registration":
        await product.connect_registered(url, context["client_id"], context["client_secret"])
    else:
        await product.connect(url)
    tools = await product.tools()
    given: dict[str, Mapping[str, object]] = {"add_numbers": {"a": 2, "b": 3}}
    if "json_schema_echo" in tools:
        given["json_schema_echo"] = {"schema": tools["json_schema_2020_12_tool"].schema}
    given |= {call["name"]: call["arguments"] for call in context.get("toolCalls", ())}
    for name in sorted(tools):
        await product.call(name, given.get(name, {}))


def cases(versions: Mapping[str, list[str]]) -> list[Any]:
    return [
        pytest.param(name, version, id=f"{name}-{version}")
        for name, each in versions.items()
        for version in each
    ]


def _version_for(version: str) -> str:
    """The runner has no version for extensions, and chooses one."""
    return "" if version == EXTENSION else version


async def test_every_scenario_of_the_runner_is_named_here(packages: Path) -> None:
    named = {
        **PASSING,
        **{name: versions for name, (versions, _, _) in FAILING.items()},
        **NOT_EXERCISED,
    }
    assert named == await listed_scenarios(packages)


@pytest.mark.parametrize(("name", "version"), cases(PASSING))
async def test_scenario_passes(
    product: Product, packages: Path, tmp_path: Path, name: str, version: str
) -> None:
    report = await run_scenario(
        packages, name, version, tmp_path, lambda *task: use(product, *task)
    )

    assert report.passed or report.complaints == TIMED.get(name), report.words
    assert report.successes > 0
    assert report.error == REFUSED.get(name, "")


@pytest.mark.parametrize(
    ("name", "version"), cases({name: versions for name, (versions, _, _) in FAILING.items()})
)
async def test_scenario_fails_as_it_is_known_to(
    product: Product, packages: Path, tmp_path: Path, name: str, version: str
) -> None:
    report = await run_scenario(
        packages, name, _version_for(version), tmp_path, lambda *task: use(product, *task)
    )

    assert not report.passed
    assert FAILING[name][1] in report.complaints, report.words


@pytest.mark.parametrize("name", NOT_EXERCISED)
async def test_scenario_has_nothing_to_check(
    product: Product, packages: Path, tmp_path: Path, name: str
) -> None:
    report = await run_scenario(packages, name, "", tmp_path, lambda *task: use(product, *task))

    assert report.complaints == []
    assert await threads.call(product.server.tools.count) == 0
