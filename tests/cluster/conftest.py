"""The cluster that the tests of this folder share. All of them are slow, and run in one worker."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.support import databases
from tests.support.chromium import launched
from tests.support.cluster.cluster import Cluster, seed_database
from tests.support.processes.site import World
from tests.support.servers import PostgreSQL, Redis
from tests.support.upstream.fake import FakeUpstream

HERE = Path(__file__).parent
# Of each log, in the report of a failure.
LOG_CHARACTERS = 3000


# Before the hook that leaves out slow tests.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.process)
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """Adds the logs of the processes to the report of a failure."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    used = getattr(item, "funcargs", {})
    cluster = used.get("cluster") or used.get("own_cluster")
    if report.failed and cluster is not None:
        for process in cluster.processes:
            report.sections.append((f"{process.folder.name}", process.log[-LOG_CHARACTERS:]))
    return report  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def _close_connections() -> None:
    """This process has no database connection."""


@pytest.fixture(scope="package")
def postgres() -> Iterator[PostgreSQL]:
    with PostgreSQL(copy_of=databases.migrated_postgres()) as server:
        yield server


@pytest.fixture(scope="package")
def redis() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture(scope="package")
def seeded(postgres: PostgreSQL, tmp_path_factory: pytest.TempPathFactory) -> World:
    return seed_database(postgres, tmp_path_factory.mktemp("seeded"))


@pytest.fixture(scope="package")
def fake() -> Iterator[FakeUpstream]:
    fake = FakeUpstream.start_in_thread()
    yield fake
    fake.stop()


@pytest.fixture(scope="package")
def shared_cluster(
    postgres: PostgreSQL,
    redis: Redis,
    seeded: World,
    fake: FakeUpstream,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cluster]:
    cluster = Cluster(
        tmp_path_factory.mktemp("cluster"),
        seeded,
        postgres=postgres,
        redis=redis,
        database=f"cluster_{uuid.uuid4().hex[:8]}",
        fake=fake,
    )
    yield cluster
    cluster.close()


@pytest.fixture
def own_cluster(
    postgres: PostgreSQL, redis: Redis, seeded: World, fake: FakeUpstream, tmp_path: Path
) -> Iterator[Cluster]:
    """One web process and one runner on a database of their own. Not started."""
    fake.clear()
    if not redis.is_alive:
        redis.start()
    cluster = Cluster(
        tmp_path,
        seeded,
        postgres=postgres,
        redis=redis,
        database=f"own_{uuid.uuid4().hex[:8]}",
        fake=fake,
        size=1,
    )
    yield cluster
    cluster.close()
    fake.clear()


@pytest.fixture
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright, launched(playwright) as browser:
        yield browser


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    shared_cluster.heal()
    yield shared_cluster
    shared_cluster.settle()
