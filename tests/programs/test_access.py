"""Every address of the API, and what each kind of actor gets there. Alice's token is good."""

import json
import uuid
from collections.abc import Iterator

import httpx
import pytest

from chat.demo.script import Gate, lmstudio_events, lmstudio_run, stream
from tests.programs.conftest import Chain
from tests.programs.site import Listener, ProgramSite
from tests.support.processes.site import soon

MODEL = "tributary/demo-reasoner"
# No token, a cookie instead of one, and everything that is no good token.
STRANGERS = (
    *("nobody", "a cookie", "nonsense", "basic"),
    *("vera", "erin", "alice revoked", "alice expired"),
)
# Good tokens of others, and Alice's own for another team: the run is not there.
OTHERS = ("bob", "dana", "alice elsewhere")


def headers_of(site: ProgramSite, actor: str) -> dict[str, str]:
    known: dict[str, dict[str, str]] = {
        "nobody": {},
        "a cookie": {"Cookie": f"sessionid={site.session}"},
        "nonsense": {"Authorization": "Bearer trib_" + "x" * 43},
        "basic": {"Authorization": f"Basic {site.token}"},
    }
    return known.get(actor) or (
        {} if actor in known else {"Authorization": f"Bearer {site.tokens[actor]}"}
    )


@pytest.fixture(scope="module")
def private_run(chain: Chain) -> str:
    return str(chain.first.ask(model=MODEL, input="Only mine")["ext"]["run"])


def statuses(site: ProgramSite, actor: str, run: str) -> dict[str, int]:
    """What each address answers; a chat that continues Alice's run is asked, too."""
    previous = f"resp_{run.replace('-', '')}"
    asked = {
        "models": ("GET", "/api/v1/models", None),
        "chat": ("POST", "/api/v1/chat", {"model": MODEL, "input": "Hello"}),
        "continue": (
            "POST",
            "/api/v1/chat",
            {"model": MODEL, "input": "Hello", "previous_response_id": previous},
        ),
        "state": ("GET", f"/api/v1/runs/{run}", None),
        "stop": ("POST", f"/api/v1/runs/{run}/stop", None),
        "events": ("GET", f"/api/v1/runs/{run}/events", None),
    }
    with httpx.Client(base_url=site.url, trust_env=False, timeout=60) as client:
        return {
            name: client.request(
                method, path, json=body, headers=headers_of(site, actor)
            ).status_code
            for name, (method, path, body) in asked.items()
        }


@pytest.mark.parametrize("actor", STRANGERS)
def test_whoever_has_no_good_token_gets_nothing(chain: Chain, private_run: str, actor: str) -> None:
    expected = dict.fromkeys(("models", "chat", "continue", "state", "stop", "events"), 401)
    if actor == "a cookie":
        # Pages of ours read a log with it, too; nothing else takes it.
        expected["events"] = 200

    assert statuses(chain.first, actor, private_run) == expected


@pytest.mark.parametrize("actor", OTHERS)
def test_a_foreign_run_is_not_there(chain: Chain, private_run: str, actor: str) -> None:
    foreign = statuses(chain.first, actor, private_run)
    missing = statuses(chain.first, actor, str(uuid.uuid4()))

    assert foreign == missing
    assert foreign == {
        "models": 200,
        "chat": 200,
        **dict.fromkeys(("continue", "state", "stop", "events"), 404),
    }


def test_whose_it_is_gets_everything(chain: Chain, private_run: str) -> None:
    assert set(statuses(chain.first, "alice", private_run).values()) == {200}


def test_an_id_as_events_have_it_names_the_same_run(site: ProgramSite, private_run: str) -> None:
    address = "/api/v1/runs/{}"

    assert site.get(address.format(private_run.replace("-", "")))["run"] == private_run
    with site.client() as client:
        assert client.get(address.format(private_run[:-1])).status_code == 404


def test_all_bad_tokens_are_told_the_same(site: ProgramSite) -> None:
    bodies = {
        httpx.get(
            f"{site.url}/api/v1/models", headers=headers_of(site, actor), trust_env=False
        ).text
        for actor in STRANGERS
    }

    (body,) = bodies
    assert json.loads(body)["error"]["code"] == "invalid_api_key"
    assert "trib_" not in body


@pytest.mark.parametrize(
    ("actor", "code"), [("nonsense", "invalid_api_key"), ("bob", "job_not_found")]
)
def test_every_address_of_a_run_refuses_in_the_same_words(
    site: ProgramSite, private_run: str, actor: str, code: str
) -> None:
    state, events = (
        httpx.get(f"{site.url}{path}", headers=headers_of(site, actor), trust_env=False)
        for path in (f"/api/v1/runs/{private_run}", f"/api/v1/runs/{private_run}/events")
    )

    assert events.json() == state.json()
    assert events.json()["error"]["code"] == code


def test_a_colleague_s_token_reads_what_is_shared(site: ProgramSite) -> None:
    result = site.ask(model=MODEL, input="For all", visibility="team")
    address = f"{site.url}/api/v1/runs/{result['ext']['run']}"

    answer = httpx.get(address, headers=headers_of(site, "bob"), trust_env=False)

    assert answer.status_code == 200
    assert answer.json()["result"]["output"] == result["output"]


# --- a right that ends in the middle of an answer --------------------------------------------

# Nobody else's rights: the other tests' strangers must stay what they are.
WHOSE = "(SELECT user_id FROM chat_accesstoken WHERE token_hash = ?)"
ENDINGS = {
    "revoked": (
        "UPDATE chat_accesstoken SET revoked_at = '2020-01-01' WHERE token_hash = ?",
        "UPDATE chat_accesstoken SET revoked_at = NULL WHERE token_hash = ?",
    ),
    "expired": (
        "UPDATE chat_accesstoken SET expires_at = '2020-01-01' WHERE token_hash = ?",
        "UPDATE chat_accesstoken SET expires_at = NULL WHERE token_hash = ?",
    ),
    "may only read now": (
        f"UPDATE chat_membership SET role = 'viewer' WHERE user_id = {WHOSE}",
        f"UPDATE chat_membership SET role = 'member' WHERE user_id = {WHOSE}",
    ),
    "switched off": (
        f"UPDATE chat_user SET is_active = 0 WHERE id = {WHOSE}",
        f"UPDATE chat_user SET is_active = 1 WHERE id = {WHOSE}",
    ),
}


@pytest.fixture(params=ENDINGS)
def ending(request: pytest.FixtureRequest, chain: Chain) -> Iterator[str]:
    from chat.actions.tokens import hash_of

    end, restore = ENDINGS[request.param]
    digest = hash_of(chain.first.token)
    yield end.replace("?", f"'{digest}'")
    chain.first.rows(restore.replace("?", f"'{digest}'"))


def test_a_stream_ends_with_the_right_to_it(chain: Chain, ending: str) -> None:
    chain.fake.script(
        stream(
            lmstudio_events(lmstudio_run("seen", "not seen")[:5]),
            Gate(name=ending),
            lmstudio_events(lmstudio_run("seen", "not seen")[5:]),
        )
    )
    listener = Listener(chain.first, model=MODEL, input="And then?")
    listener.until(lambda one: "message.delta" in one.names)
    run = listener.run.replace("-", "")

    chain.first.rows(ending)
    listener.until_ended()
    chain.fake.release(ending)

    assert "chat.end" not in listener.names
    # The run is its person's, and goes on.
    soon(
        lambda: chain.first.rows(
            "SELECT 1 FROM chat_run WHERE public_id = ? AND status = 'completed'", run
        )
    )
