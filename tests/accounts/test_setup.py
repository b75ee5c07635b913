"""The first start: one link, one administrator, one team, the demo."""

from __future__ import annotations

from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from chat.accounts.actions import setup
from chat.demo.models import DEMO_SERVERS
from chat.models import AuditEvent, Membership, Team, TeamRole, Upstream, User
from chat.servers.actions import demo as actions_demo
from tests.accounts.conftest import NEW_PASSWORD, run_at_once
from tests.conftest import MakeUser

FORM = {
    "name": "Ada",
    "email": "Ada@Example.org",
    "password": NEW_PASSWORD,
    "team_name": "River",
}

pytestmark = pytest.mark.django_db


def setup_path() -> str:
    link = setup.setup_link()
    assert link is not None
    return urlsplit(link).path


# --- the link ----------------------------------------------------------------------------------


def test_link_stays_the_same_until_it_is_used() -> None:
    path = setup_path()
    assert setup_path() == path

    Client().post(path, FORM)

    assert Client().get(path).status_code == 404
    assert setup.setup_link() is None


def test_link_is_valid_wherever_the_same_key_is(settings: Any, tmp_path: Path) -> None:
    path = setup_path()

    settings.DATA_DIR = tmp_path / "another container"

    assert Client().get(path).status_code == 200
    settings.SECRET_KEY = "another installation's"
    assert Client().get(path).status_code == 404


def test_link_has_the_address_of_the_site(settings: object) -> None:
    settings.SITE_URL = "https://river.example.org"

    assert setup.setup_link().startswith("https://river.example.org/setup/")


def test_setup_creates_an_administrator_who_owns_the_team() -> None:
    client = Client()

    answer = client.post(setup_path(), FORM)

    ada = User.objects.get()
    assert answer.url == reverse("home")
    assert (ada.email, ada.is_staff, ada.is_superuser) == ("ada@example.org", True, True)
    assert Membership.objects.get().role == TeamRole.OWNER
    assert Team.objects.get().name == "River"
    assert client.session["_auth_user_id"] == str(ada.pk)
    assert AuditEvent.objects.get().verb == "installation.set_up"


def test_wrong_token_gets_404(subtests: pytest.Subtests) -> None:
    before_a_link_was_made = Client().get(reverse("setup", args=["anything"]))
    setup.setup_link()

    for token in ("wrong", "x" * 43, "ä", "setup-token"):
        for method in ("get", "post"):
            with subtests.test(token=token, method=method):
                answer = getattr(Client(), method)(reverse("setup", args=[token]), FORM)

                assert answer.status_code == 404
                assert not User.objects.exists()
    assert before_a_link_was_made.status_code == 404


def test_right_token_gets_404_once_there_are_users(make_user: MakeUser) -> None:
    path = setup_path()
    alice = make_user("Alice")

    answer = Client().post(path, FORM)

    assert answer.status_code == 404
    assert list(User.objects.all()) == [alice]


@pytest.mark.parametrize(
    "fields", [{"password": "short"}, {"email": "ada"}, {"name": ""}, {"team_name": ""}]
)
def test_invalid_form_is_refused_beside_the_field(fields: dict[str, str]) -> None:
    answer = Client().post(setup_path(), {**FORM, **fields})

    assert answer.status_code == 422
    assert b"field-error" in answer.content
    assert not User.objects.exists()


def test_setup_page_is_not_stored_and_sends_no_referrer() -> None:
    answer = Client().get(setup_path())

    assert "no-store" in answer["Cache-Control"]
    assert answer["Referrer-Policy"] == "strict-origin"


@pytest.mark.django_db(transaction=True)
def test_several_setups_at_once_create_one_administrator() -> None:
    forms = [{**FORM, "email": f"ada{number}@example.org"} for number in range(4)]

    outcomes = run_at_once(*(partial(setup.set_up, **form) for form in forms))

    assert outcomes == ["done", "refused", "refused", "refused"]
    assert User.objects.count() == Team.objects.count() == 1


def printed_by_command() -> str:
    out = StringIO()
    call_command("setup_link", stdout=out)
    return out.getvalue().strip()


def test_command_prints_the_link() -> None:
    assert printed_by_command() == setup.setup_link()


def test_command_says_when_setup_is_done(alice: User) -> None:
    assert "is already set up" in printed_by_command()


def test_sign_in_page_explains_setup_while_there_are_no_users(make_user: MakeUser) -> None:
    before = Client().get(reverse("account_login"))
    make_user("Alice")
    after = Client().get(reverse("account_login"))

    assert b"setup link" in before.content
    assert b"setup link" not in after.content


# --- the demo ----------------------------------------------------------------------------------

DEMO_URL = "http://127.0.0.1:9100"


@pytest.fixture
def demo(settings: Any) -> None:
    settings.DEMO_UPSTREAM_URL = DEMO_URL
    actions_demo.ensure_demo_upstream()


def demo_addresses(root: str) -> set[str]:
    """Where the demo's servers are, below its root; every dialect has a path of its own."""
    found = [f"{root}{server.path}" for server in DEMO_SERVERS]
    assert len(set(found)) == len(found)
    return set(found)


def test_demo_has_a_server_for_every_dialect(settings: Any) -> None:
    settings.DEMO_UPSTREAM_URL = f"{DEMO_URL}/"

    actions_demo.ensure_demo_upstream()

    rows = {row.dialect: row for row in Upstream.objects.all()}
    assert set(rows) == {server.dialect for server in DEMO_SERVERS}
    assert rows["lmstudio"].base_url == DEMO_URL
    assert rows["openai_chat"].base_url == f"{DEMO_URL}/v1"
    assert all(row.is_demo for row in rows.values())
    assert {row.base_url for row in rows.values()} == demo_addresses(DEMO_URL)
    for server in DEMO_SERVERS:
        listed = {model["id"] for model in rows[server.dialect].model_list}
        assert listed == {model.id for model in server.models if model.label}


def test_demo_servers_follow_the_port(demo: None, settings: Any) -> None:
    settings.DEMO_UPSTREAM_URL = "http://127.0.0.1:9200"

    actions_demo.ensure_demo_upstream()

    addresses = Upstream.objects.values_list("base_url", flat=True)
    assert set(addresses) == demo_addresses("http://127.0.0.1:9200")


def test_new_demo_models_join_the_listed_ones(demo: None) -> None:
    row = Upstream.objects.get(dialect="openai_chat", is_demo=True)
    typed = {"id": "typed/by-hand", "label": "Mine", "detail": {}, "is_typed": True}
    known = [*row.model_list[:2], typed]
    Upstream.objects.filter(pk=row.pk).update(model_list=known)

    actions_demo.ensure_demo_upstream()

    row.refresh_from_db()
    listed = [entry["id"] for entry in row.model_list]
    (server,) = [each for each in DEMO_SERVERS if each.dialect == "openai_chat"]
    assert row.model_list[:3] == known
    assert {model.id for model in server.models if model.label} < set(listed)
    assert len(listed) == len(set(listed))


def test_disabled_demo_stays_disabled(demo: None) -> None:
    Upstream.objects.update(is_enabled=False)

    actions_demo.ensure_demo_upstream()

    assert not Upstream.objects.filter(is_enabled=True).exists()


def test_demo_is_enabled_only_while_it_has_an_address(demo: None, settings: Any) -> None:
    enabled = Upstream.objects.filter(is_enabled=True)

    settings.DEMO_UPSTREAM_URL = ""
    actions_demo.ensure_demo_upstream()
    without_address = enabled.count()
    settings.DEMO_UPSTREAM_URL = DEMO_URL
    actions_demo.ensure_demo_upstream()

    assert without_address == 0
    assert enabled.count() == len(DEMO_SERVERS)


def test_demo_leaves_servers_of_the_same_name_alone(settings: Any) -> None:
    own = "http://x.test/v1"
    Upstream.objects.create(name="Demo (OpenAI)", dialect="openai_chat", base_url=own)
    settings.DEMO_UPSTREAM_URL = DEMO_URL

    actions_demo.ensure_demo_upstream()

    assert Upstream.objects.get(name="Demo (OpenAI)").base_url == own
    assert Upstream.objects.filter(is_demo=True).count() == len(DEMO_SERVERS)
