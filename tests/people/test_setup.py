"""The first start: one link, one administrator, one team, the demo."""

from __future__ import annotations

import threading
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.urls import reverse

from chat.actions import setup
from chat.actions.errors import ActionRefused
from chat.models import AuditEvent, Membership, Team, TeamRole, Upstream, User
from tests.conftest import MakeUser

FORM = {
    "name": "Ada",
    "email": "Ada@Example.org",
    "password": "seven willow rivers",
    "team_name": "River",
}

pytestmark = pytest.mark.django_db


def _path() -> str:
    link = setup.setup_link()
    assert link is not None
    return urlsplit(link).path


def test_link_stays_the_same_until_it_is_used() -> None:
    assert setup.setup_link() == setup.setup_link()


def test_link_is_good_wherever_the_same_key_is(settings: Any, tmp_path: Path) -> None:
    path = _path()

    settings.DATA_DIR = tmp_path / "another container"

    assert Client().get(path).status_code == 200
    settings.SECRET_KEY = "another installation's"
    assert Client().get(path).status_code == 404


def test_link_is_an_address_of_this_installation(settings: object) -> None:
    settings.SITE_URL = "https://river.example.org"

    assert setup.setup_link().startswith("https://river.example.org/setup/")


def test_setting_up_makes_an_administrator_who_owns_the_team() -> None:
    client = Client()

    answer = client.post(_path(), FORM)

    ada = User.objects.get()
    assert answer.url == reverse("home")
    assert (ada.email, ada.is_staff, ada.is_superuser) == ("ada@example.org", True, True)
    assert Membership.objects.get().role == TeamRole.OWNER
    assert Team.objects.get().name == "River"
    assert client.session["_auth_user_id"] == str(ada.pk)
    assert AuditEvent.objects.get().verb == "installation.set_up"


def test_link_is_dead_after_use() -> None:
    path = _path()
    Client().post(path, FORM)

    assert Client().get(path).status_code == 404
    assert setup.setup_link() is None


@pytest.mark.parametrize("token", ["wrong", "x" * 43, "ä", "setup-token"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_wrong_token_gets_404(token: str, method: str) -> None:
    setup.setup_link()

    answer = getattr(Client(), method)(reverse("setup", args=[token]), FORM)

    assert answer.status_code == 404
    assert not User.objects.exists()


def test_right_token_gets_404_once_somebody_is_there(make_user: MakeUser) -> None:
    path = _path()
    alice = make_user("Alice")

    answer = Client().post(path, FORM)

    assert answer.status_code == 404
    assert list(User.objects.all()) == [alice]


def test_nothing_is_open_before_a_link_was_made() -> None:
    assert Client().get(reverse("setup", args=["anything"])).status_code == 404


@pytest.mark.parametrize(
    "fields", [{"password": "short"}, {"email": "ada"}, {"name": ""}, {"team_name": ""}]
)
def test_form_says_what_is_missing(fields: dict[str, str]) -> None:
    answer = Client().post(_path(), {**FORM, **fields})

    assert answer.status_code == 422
    assert b"field-error" in answer.content
    assert not User.objects.exists()


def test_setup_page_is_not_stored_and_sends_no_address_on() -> None:
    answer = Client().get(_path())

    assert "no-store" in answer["Cache-Control"]
    assert answer["Referrer-Policy"] == "strict-origin"


@pytest.mark.django_db(transaction=True)
def test_of_many_who_set_up_at_once_one_becomes_administrator() -> None:
    outcomes: list[str] = []
    start = threading.Barrier(4)

    def ask(number: int) -> None:
        start.wait(timeout=30)
        try:
            setup.set_up(**{**FORM, "email": f"ada{number}@example.org"})
            outcomes.append("made")
        except ActionRefused:
            outcomes.append("refused")
        finally:
            connection.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    assert sorted(outcomes) == ["made", "refused", "refused", "refused"]
    assert User.objects.count() == Team.objects.count() == 1


def test_command_prints_the_link() -> None:
    out = StringIO()

    call_command("setup_link", stdout=out)

    assert out.getvalue().strip() == setup.setup_link()


def test_command_says_when_setup_is_done(alice: User) -> None:
    out = StringIO()

    call_command("setup_link", stdout=out)

    assert "is set up" in out.getvalue()


def test_sign_in_page_says_where_to_begin_while_nobody_is_there() -> None:
    assert b"setup link" in Client().get(reverse("account_login")).content


def test_sign_in_page_says_nothing_of_it_afterwards(alice: User) -> None:
    assert b"setup link" not in Client().get(reverse("account_login")).content


# --- the demo ----------------------------------------------------------------------------


def bases(root: str) -> set[str]:
    """Where the demo's servers are, below its root; every dialect has a path of its own."""
    found = [f"{root}{server.path}" for server in setup.DEMO_SERVERS]
    assert len(set(found)) == len(found)
    return set(found)


def test_demo_servers_speak_every_dialect_at_the_demos_address(settings: object) -> None:
    settings.DEMO_UPSTREAM_URL = "http://127.0.0.1:9100/"

    setup.ensure_demo_upstream()

    rows = {row.dialect: row for row in Upstream.objects.all()}
    assert set(rows) == {server.dialect for server in setup.DEMO_SERVERS}
    assert rows["lmstudio"].base_url == "http://127.0.0.1:9100"
    assert rows["openai_chat"].base_url == "http://127.0.0.1:9100/v1"
    assert all(row.is_demo for row in rows.values())
    assert {row.base_url for row in rows.values()} == bases("http://127.0.0.1:9100")
    for server in setup.DEMO_SERVERS:
        assert {model["id"] for model in rows[server.dialect].model_list} == set(server.models)


def test_demo_servers_follow_the_port(settings: object) -> None:
    settings.DEMO_UPSTREAM_URL = "http://127.0.0.1:9100"
    setup.ensure_demo_upstream()
    settings.DEMO_UPSTREAM_URL = "http://127.0.0.1:9200"

    setup.ensure_demo_upstream()

    assert set(Upstream.objects.values_list("base_url", flat=True)) == bases(
        "http://127.0.0.1:9200"
    )


def test_models_that_the_demo_has_learned_are_offered_beside_those_that_were_listed(
    settings: object,
) -> None:
    settings.DEMO_UPSTREAM_URL = "http://127.0.0.1:9001"  # type: ignore[attr-defined]
    setup.ensure_demo_upstream()
    row = Upstream.objects.get(dialect="openai_chat", is_demo=True)
    typed = {"id": "typed/by-hand", "label": "Mine", "detail": {}, "is_typed": True}
    known = [*row.model_list[:2], typed]
    Upstream.objects.filter(pk=row.pk).update(model_list=known)

    setup.ensure_demo_upstream()

    row.refresh_from_db()
    listed = [entry["id"] for entry in row.model_list]
    assert row.model_list[:3] == known
    assert set(row_models("openai_chat")) < set(listed)
    assert len(listed) == len(set(listed))


def row_models(dialect: str) -> list[str]:
    return [m for each in setup.DEMO_SERVERS if each.dialect == dialect for m in each.models]


def test_demo_that_was_switched_off_stays_off(settings: object) -> None:
    settings.DEMO_UPSTREAM_URL = "http://127.0.0.1:9100"
    setup.ensure_demo_upstream()
    Upstream.objects.update(is_enabled=False)

    setup.ensure_demo_upstream()

    assert not Upstream.objects.filter(is_enabled=True).exists()


def test_demo_is_hidden_without_an_address_and_returns_with_one(settings: object) -> None:
    settings.DEMO_UPSTREAM_URL = "http://127.0.0.1:9100"
    setup.ensure_demo_upstream()

    settings.DEMO_UPSTREAM_URL = ""
    setup.ensure_demo_upstream()
    hidden = Upstream.objects.filter(is_enabled=True).count()
    settings.DEMO_UPSTREAM_URL = "http://127.0.0.1:9100"
    setup.ensure_demo_upstream()

    assert hidden == 0
    assert Upstream.objects.filter(is_enabled=True).count() == len(setup.DEMO_SERVERS)


def test_demo_leaves_servers_of_the_same_name_alone(settings: object) -> None:
    Upstream.objects.create(
        name="Demo (OpenAI)", dialect="openai_chat", base_url="http://x.test/v1"
    )
    settings.DEMO_UPSTREAM_URL = "http://127.0.0.1:9100"

    setup.ensure_demo_upstream()

    assert Upstream.objects.get(name="Demo (OpenAI)").base_url == "http://x.test/v1"
    assert Upstream.objects.filter(is_demo=True).count() == len(setup.DEMO_SERVERS)
