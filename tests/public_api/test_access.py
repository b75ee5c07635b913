"""Every address of the public API, and what each kind of actor gets there."""

import json
import uuid
from collections.abc import Iterator

import pytest

from chat.accounts.actions.tokens import hash_of
from tests.public_api.conftest import Chain
from tests.public_api.site import CHAT, ProgramSite, StreamClient
from tests.support.processes.site import soon
from tests.support.upstream.script import Gate, lmstudio_events, lmstudio_run, stream

MODEL = "tributary/demo-reasoner"
ADDRESSES = ("models", "projects", "chat", "continue", "state", "stop", "events")
# No token, a cookie instead of one, and tokens that are not valid any more.
UNAUTHENTICATED = (
    *("anonymous", "session cookie", "invented token", "basic"),
    *("vera", "erin", "alice revoked", "alice expired"),
)
# Valid tokens of others, and Alice's own for another team: her run is not there.
OTHERS = ("bob", "dana", "alice for another team")


@pytest.fixture(scope="module")
def private_run(chain: Chain) -> str:
    """Of Alice."""
    return str(chain.first.ask(model=MODEL, input="Only mine")["ext"]["run"])


def statuses(site: ProgramSite, actor: str, run: str) -> dict[str, int]:
    """What each address answers; "continue" is a chat that goes on with the run."""
    question = {"model": MODEL, "input": "Hello"}
    previous = {"previous_response_id": f"resp_{run.replace('-', '')}"}
    requests = {
        "models": ("GET", "/api/v1/models", None),
        "projects": ("GET", "/api/v1/projects", None),
        "chat": ("POST", CHAT, question),
        "continue": ("POST", CHAT, {**question, **previous}),
        "state": ("GET", f"/api/v1/runs/{run}", None),
        "stop": ("POST", f"/api/v1/runs/{run}/stop", None),
        "events": ("GET", f"/api/v1/runs/{run}/events", None),
    }
    with site.client(actor) as client:
        return {
            name: client.request(method, path, json=body).status_code
            for name, (method, path, body) in requests.items()
        }


def test_requests_without_a_valid_token_get_401(
    site: ProgramSite, private_run: str, subtests: pytest.Subtests
) -> None:
    for actor in UNAUTHENTICATED:
        with subtests.test(actor):
            expected = dict.fromkeys(ADDRESSES, 401)
            if actor == "session cookie":
                # Our own pages read a log with it as well.
                expected["events"] = 200

            assert statuses(site, actor, private_run) == expected


def test_run_of_another_person_is_404(
    site: ProgramSite, private_run: str, subtests: pytest.Subtests
) -> None:
    for actor in OTHERS:
        with subtests.test(actor):
            foreign = statuses(site, actor, private_run)
            missing = statuses(site, actor, str(uuid.uuid4()))

            assert foreign == missing
            assert foreign == {
                **dict.fromkeys(ADDRESSES, 404),
                "models": 200,
                "projects": 200,
                "chat": 200,
            }


def test_owner_gets_everything(site: ProgramSite, private_run: str) -> None:
    assert set(statuses(site, "alice", private_run).values()) == {200}


def test_run_is_found_by_its_id_without_hyphens(site: ProgramSite, private_run: str) -> None:
    found = site.get(f"/api/v1/runs/{private_run.replace('-', '')}")
    cut = site.get(f"/api/v1/runs/{private_run[:-1]}")

    assert found.json()["run"] == private_run
    assert cut.status_code == 404


def test_all_invalid_tokens_get_the_same_error(site: ProgramSite) -> None:
    (body,) = {site.get("/api/v1/models", actor=actor).text for actor in UNAUTHENTICATED}

    assert json.loads(body)["error"]["code"] == "invalid_api_key"
    assert "trib_" not in body


@pytest.mark.parametrize(
    ("actor", "code"), [("invented token", "invalid_api_key"), ("bob", "job_not_found")]
)
def test_all_addresses_of_a_run_give_the_same_error(
    site: ProgramSite, private_run: str, actor: str, code: str
) -> None:
    state = site.get(f"/api/v1/runs/{private_run}", actor=actor)
    events = site.get(f"/api/v1/runs/{private_run}/events", actor=actor)

    assert events.json() == state.json()
    assert events.json()["error"]["code"] == code


def test_team_member_reads_a_shared_run(site: ProgramSite) -> None:
    result = site.ask(model=MODEL, input="For all", visibility="team")

    answer = site.get(f"/api/v1/runs/{result['ext']['run']}", actor="bob")

    assert answer.status_code == 200
    assert answer.json()["result"]["output"] == result["output"]


# --- access that ends in the middle of an answer -----------------------------------------------

# Only Alice's rights change: the other actors must stay what they are.
OWNER = "(SELECT user_id FROM chat_accesstoken WHERE token_hash = '{token}')"
TOKEN = "UPDATE chat_accesstoken SET {change} WHERE token_hash = '{{token}}'"
# What ends her access, and what restores it.
ENDINGS = {
    "token revoked": (
        TOKEN.format(change="revoked_at = '2020-01-01'"),
        TOKEN.format(change="revoked_at = NULL"),
    ),
    "token expired": (
        TOKEN.format(change="expires_at = '2020-01-01'"),
        TOKEN.format(change="expires_at = NULL"),
    ),
    "became a viewer": (
        f"UPDATE chat_membership SET role = 'viewer' WHERE user_id = {OWNER}",
        f"UPDATE chat_membership SET role = 'member' WHERE user_id = {OWNER}",
    ),
    "deactivated": (
        f"UPDATE chat_user SET is_active = 0 WHERE id = {OWNER}",
        f"UPDATE chat_user SET is_active = 1 WHERE id = {OWNER}",
    ),
}


@pytest.fixture(params=ENDINGS)
def ending(request: pytest.FixtureRequest, site: ProgramSite) -> Iterator[str]:
    """The statement that ends Alice's access."""
    token = hash_of(site.tokens["alice"])
    end, restore = (statement.format(token=token) for statement in ENDINGS[request.param])
    yield end
    site.rows(restore)


def test_stream_ends_with_its_access(chain: Chain, ending: str) -> None:
    events = lmstudio_run("seen", "not seen")
    chain.fake.script(
        stream(lmstudio_events(events[:5]), Gate(name=ending), lmstudio_events(events[5:]))
    )
    client = StreamClient(chain.first, model=MODEL, input="And then?")
    client.until_event("message.delta")
    run = client.run.replace("-", "")

    chain.first.rows(ending)
    client.until_ended()
    chain.fake.release(ending)

    assert "chat.end" not in client.names
    # The run belongs to its person, and goes on.
    completed = "SELECT 1 FROM chat_run WHERE public_id = ? AND status = 'completed'"
    soon(lambda: chain.first.rows(completed, run))
