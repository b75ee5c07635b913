"""People, teams and places that the tests share. Real SQLite files, real transactions."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.conf import settings
from django.db import connection, connections
from django.test import Client, TransactionTestCase
from xdist.scheduler import LoadScopeScheduling

from chat.models import Conversation, Membership, Team, TeamRole, Upstream, User, Visibility
from tests.schedule import ByResource
from tests.tables import empty_filled_tables

PASSWORD = "correct horse battery"

MakeUser = Callable[..., User]


# The same examples each time: whoever changes something else must not be the one who meets a new
# one. With HYPOTHESIS_PROFILE=explore others are looked for.
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.register_profile(
    "same",
    derandomize=True,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    return ByResource(config, log)


def pytest_configure(config: pytest.Config) -> None:
    """Half a second per password is for attackers, not for every person in every test."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    TransactionTestCase._fixture_teardown = lambda test: empty_filled_tables()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> None:
    """Each worker has a SQLite file of its own: several threads and connections see the same rows."""
    if settings.IS_SQLITE:
        path = tmp_path_factory.mktemp("database") / "test.sqlite3"
        shutil.copy(request.getfixturevalue("migrated_database"), path)
        settings.DATABASES["default"].setdefault("TEST", {})["NAME"] = str(path)
        connections["default"].settings_dict.setdefault("TEST", {})["NAME"] = str(path)


@pytest.fixture(scope="session")
def django_db_keepdb(django_db_keepdb: bool) -> bool:
    """The copy has all its tables, and goes with the folder it is in."""
    return settings.IS_SQLITE or django_db_keepdb


@pytest.fixture(scope="session")
def migrated_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty, migrated SQLite file; processes under test get a copy of it. All workers share it:
    to migrate takes seconds."""
    place = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        place = place.parent
    folder = place / "migrated"
    with (place / "migrated.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            migrate_in(place / "migrating")
            (place / "migrating").rename(folder)
    return folder / "tributary.sqlite3"


def migrate_in(folder: Path) -> None:
    # What somebody left unfinished may be anything.
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    environment = {**os.environ, "DATA_DIR": str(folder)}
    environment.pop("DATABASE_URL", None)
    subprocess.run(
        [sys.executable, "manage.py", "migrate", "--verbosity", "0"],
        cwd=settings.BASE_DIR,
        env=environment,
        check=True,
    )


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
        client = Client()
        client.force_login(user, backend=settings.AUTHENTICATION_BACKENDS[0])
        return client

    return sign_in


@pytest.fixture(autouse=True)
def _close_connections() -> Iterator[None]:
    yield
    if not connection.in_atomic_block:
        connection.close()
