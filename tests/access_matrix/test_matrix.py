"""What each kind of user gets at every URL of the application.

A route without a case fails `test_every_route_has_an_access_test`. To add one, write a `Case` in the module of its
feature beside this one that names the route and what each actor gets. A relation to a conversation (`relations.py`)
has a row for each verb. All requests start from the same database state. `make test` asks for each outcome of each
case once, as one of the actors who get it; `make test-all` asks as every actor.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse
from pytest_django.plugin import DjangoDbBlocker

from chat.web import views
from tests.access_matrix.case import ACTORS, SIGN_IN, Case, Outcome, World
from tests.access_matrix.cases import CASES, TESTED_ELSEWHERE
from tests.access_matrix.routes import all_routes
from tests.access_matrix.world import make_world, rolled_back
from tests.support.selection import one_of_each


@pytest.fixture(scope="module")
def world(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[bytes]:
    """Pickled, because each request gets a copy of its own, and a deep copy takes several times as long."""
    with django_db_blocker.unblock(), rolled_back():
        yield pickle.dumps(make_world())


@pytest.fixture(autouse=True)
def _short_error_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of three requests here end with the same error page, whose sidebar `tests/web` looks at."""
    monkeypatch.setattr(views, "_is_signed_in", lambda request: False)


@pytest.fixture(scope="module")
def client() -> Client:
    """One for all requests, since each client loads the middleware anew (15 ms)."""
    return Client()


@pytest.mark.django_db
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)
def test_access(case: Case, world: bytes, client: Client, subtests: pytest.Subtests) -> None:
    for actor in one_of_each(case.outcomes, by=case.label):
        with subtests.test(msg=actor), rolled_back():
            outcome = outcome_of(case, actor, pickle.loads(world), client)

            assert outcome == case.outcomes[actor]


def outcome_of(case: Case, actor: str, world: World, client: Client) -> Outcome:
    client.cookies.clear()
    if actor in world.sessions:
        client.cookies[settings.SESSION_COOKIE_NAME] = world.sessions[actor]
    url = reverse(case.route, kwargs=case.kwargs(world))
    response = getattr(client, case.method)(url, case.data(world))
    if response.streaming:
        # To its end, where it closes its file.
        b"".join(response)
    location = response.headers.get("Location", "")
    if response.status_code == 302 and location.startswith(reverse("account_login")):
        return SIGN_IN
    return response.status_code


def test_every_route_has_an_access_test() -> None:
    untested = {
        route
        for route in all_routes() - {case.route for case in CASES}
        if not route.startswith(tuple(TESTED_ELSEWHERE))
    }

    assert untested == set()


def test_every_case_names_an_existing_route() -> None:
    assert {case.route for case in CASES} - all_routes() == set()


def test_every_case_names_every_actor() -> None:
    assert [case.label for case in CASES if set(case.outcomes) != set(ACTORS)] == []
