"""People, teams and places that the tests share. Real SQLite files, real transactions."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from _pytest import runner
from django.conf import settings
from django.db import connections
from django.test import Client, TransactionTestCase
from hypothesis.internal.conjecture import providers
from xdist.scheduler import LoadScopeScheduling

from chat.core import rate_limits
from chat.models import Conversation, Membership, Team, TeamRole, Upstream, User, Visibility
from tests.support import databases
from tests.support.machine import skip_what_cannot_run
from tests.support.processes import seed
from tests.support.quick_reports import note_less
from tests.support.schedule import ByResource
from tests.support.selection import EXHAUSTIVE, Report, leave_out_slow
from tests.support.servers import PostgreSQL, Redis
from tests.support.stack import with_room
from tests.support.tables import empty_filled_tables

PASSWORD = "correct horse battery"

pytest_plugins = [
    "tests.support.rooms",
    "tests.support.run_fixtures",
    "tests.support.answers",
    "tests.support.failures",
    "tests.support.files",
]

MakeUser = Callable[..., User]


# The same examples each time: a change of something else must not be the one that meets a new
# one. With HYPOTHESIS_PROFILE=explore others are looked for.
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.register_profile(
    "same",
    derandomize=True,
    deadline=None,
    max_examples=100 if EXHAUSTIVE else 25,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "same")
hypothesis.settings.load_profile(PROFILE)
if PROFILE == "same":
    # Hypothesis also draws constants of the modules that are loaded, and which are depends on the
    # tests that this worker happened to run before.
    providers.is_local_module_file = lambda _path: False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return ByResource(config, log)


def pytest_configure(config: pytest.Config) -> None:
    # Half a second per password is for attackers, not for every person in every test.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    # Plain names from the source tree: each Django client would build and index all static files.
    # What listens on the usual ports of this machine is no business of the tests.
    settings.SERVER_PORTS = []
    settings.WHITENOISE_AUTOREFRESH = settings.WHITENOISE_USE_FINDERS = True
    TransactionTestCase._fixture_teardown = lambda test: empty_filled_tables()
    runner.runtestprotocol = with_room(runner.runtestprotocol)
    note_less()
    # Until all tests are collected: pytest_collection_finish.
    gc.disable()
    if not is_worker(config):
        databases.make_run_folder()
        config.pluginmanager.register(Report())


def pytest_collection_finish() -> None:
    """The collected tests stay to the end, so the collector need not look at them again and again. With its usual
    thresholds it takes a twentieth of the time, as tests make many objects that live for one of them."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    if not is_worker(config):
        databases.remove_run_folder()


def is_worker(config: pytest.Config) -> bool:
    """Of pytest-xdist; not the process that hands out the tests, nor one that runs them alone."""
    return hasattr(config, "workerinput")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out_slow(config, items)
    skip_what_cannot_run(items)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``@pytest.mark.databases``: on SQLite and on PostgreSQL. With ``slow=True`` on PostgreSQL in
    ``make test-all`` only, with ``only="postgresql"`` on that one alone."""
    mark = metafunc.definition.get_closest_marker("databases")
    if mark is None or not settings.IS_SQLITE:
        return
    if metafunc.definition.get_closest_marker("django_db"):
        # That mark prepares the database before this one can choose which.
        raise pytest.UsageError(f"{metafunc.definition.nodeid}: ask for the fixture db instead")
    marks = [pytest.mark.needs("postgresql")]
    if mark.kwargs.get("slow"):
        marks.append(pytest.mark.slow)
    only = mark.kwargs.get("only")
    cases = [
        *([] if only == "postgresql" else ["sqlite"]),
        *([] if only == "sqlite" else [pytest.param("postgresql", marks=marks)]),
    ]
    metafunc.parametrize("database", cases, indirect=True, scope="function")


@pytest.fixture(scope="session")
def django_db_modify_db_settings(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Each worker has a SQLite file of its own: several threads and connections see the same rows."""
    if settings.IS_SQLITE:
        path = tmp_path_factory.mktemp("database") / "test.sqlite3"
        shutil.copy(databases.migrated_sqlite(), path)
        settings.DATABASES["default"].setdefault("TEST", {})["NAME"] = str(path)
        connections["default"].settings_dict.setdefault("TEST", {})["NAME"] = str(path)


@pytest.fixture(scope="session")
def django_db_keepdb(django_db_keepdb: bool) -> bool:
    """The copy has all its tables, and goes with the folder it is in."""
    return settings.IS_SQLITE or django_db_keepdb


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgreSQL]:
    """This worker's PostgreSQL. ``create(name, of=MIGRATED)`` makes a database with all tables."""
    server = PostgreSQL(copy_of=databases.migrated_postgres())
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(scope="session")
def postgres_database(
    postgres_server: PostgreSQL, django_db_setup: None
) -> Iterator[databases.OtherDatabase]:
    """What the tests marked with ``databases`` share."""
    postgres_server.create("tests", of=databases.MIGRATED)
    database = databases.OtherDatabase(postgres_server.url("tests"))
    yield database
    database.close()


@pytest.fixture(scope="session")
def redis_server() -> Iterator[Redis]:
    """This worker's Redis; what it holds is the business of one test at a time."""
    server = Redis()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture(autouse=True)
def _minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """No minute ends during a test: the counts of limits per minute would begin anew."""
    minute = rate_limits.current_minute()
    monkeypatch.setattr(rate_limits, "current_minute", lambda: minute)


@pytest.fixture(autouse=True)
def database(request: pytest.FixtureRequest) -> Iterator[str]:
    """The kind of database that this process works on: see ``pytest_generate_tests``."""
    kind = getattr(request, "param", "")
    if kind != "postgresql":
        yield kind
        return
    with request.getfixturevalue("postgres_database").as_default():
        yield kind


@pytest.fixture(scope="session")
def migrated_database() -> Path:
    """An empty, migrated SQLite file; processes under test get a copy of it."""
    return databases.migrated_sqlite()


@pytest.fixture
def data_dir(tmp_path: Path, migrated_database: Path) -> Path:
    """A data directory for one server process, with its own copy of the database."""
    shutil.copy(migrated_database, tmp_path / "tributary.sqlite3")
    return tmp_path


@pytest.fixture
def make_user(db: None) -> MakeUser:
    def make(name: str, **fields: object) -> User:
        return User.objects.create_user(
            f"{name.lower()}@example.org", PASSWORD, name=name, **fields
        )

    return make


@pytest.fixture
def alice(make_user: MakeUser) -> User:
    """Owns the team."""
    return make_user("Alice")


@pytest.fixture
def bob(make_user: MakeUser) -> User:
    """A member of Alice's team."""
    return make_user("Bob")


@pytest.fixture
def charlie(make_user: MakeUser) -> User:
    """A stranger: signed in, in no team."""
    return make_user("Charlie")


@pytest.fixture
def viewer(make_user: MakeUser) -> User:
    """May only read in Alice's team."""
    return make_user("Vera")


@pytest.fixture
def administrator(make_user: MakeUser) -> User:
    """Administers the installation; in no team."""
    return make_user("Ada", is_staff=True, is_superuser=True)


@pytest.fixture
def team(alice: User, bob: User, viewer: User) -> Team:
    team = Team.objects.create(name="River")
    Membership.objects.create(team=team, user=alice, role=TeamRole.OWNER)
    Membership.objects.create(team=team, user=bob, role=TeamRole.MEMBER)
    Membership.objects.create(team=team, user=viewer, role=TeamRole.VIEWER)
    return team


@pytest.fixture
def other_team(db: None) -> Team:
    return Team.objects.create(name="Mountain")


@pytest.fixture
def dana(make_user: MakeUser, other_team: Team) -> User:
    """Owns another team."""
    dana = make_user("Dana")
    Membership.objects.create(team=other_team, user=dana, role=TeamRole.OWNER)
    return dana


@pytest.fixture
def upstream(db: None) -> Upstream:
    return Upstream.objects.create(
        name="Demo",
        dialect="lmstudio",
        base_url="http://127.0.0.1:9",
        model_list=[{"id": "demo/model", "label": "Demo model", "detail": {}, "is_typed": False}],
    )


@pytest.fixture
def conversation(alice: User, team: Team) -> Conversation:
    """Alice's, shared with her team."""
    return Conversation.objects.create(
        team=team, owner=alice, visibility=Visibility.TEAM, title="Shared"
    )


@pytest.fixture
def private_conversation(alice: User, team: Team) -> Conversation:
    return Conversation.objects.create(
        team=team, owner=alice, visibility=Visibility.PRIVATE, title="Private"
    )


@pytest.fixture
def signed_in() -> Callable[[User], Client]:
    def sign_in(user: User) -> Client:
        # Django's `force_login` would take three times as many statements.
        client = Client()
        client.cookies[settings.SESSION_COOKIE_NAME] = seed.sign_in(user)
        return client

    return sign_in
