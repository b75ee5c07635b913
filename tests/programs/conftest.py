"""Two sites, one behind the other, in real processes, and a fake server behind both."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chat.demo.fake import FakeUpstream
from tests.programs.site import ProgramSite

HERE = Path(__file__).parent
# Server of the first site, its path at the fake, its dialect, and a model of it.
SERVERS = [
    ("LM Studio", "", "lmstudio", "tributary/demo-reasoner"),
    ("OpenAI", "/v1", "openai_chat", "tributary/demo-openrouter"),
    ("Messages", "/anthropic/v1", "anthropic_messages", "tributary/demo-thinker"),
    ("Responses", "/responses/v1", "openai_responses", "tributary/demo-agent"),
    ("Completions", "/completions/v1", "openai_completions", "tributary/demo-base"),
    ("Bitseek", "/bitseek/v1", "bitseek", "tributary/demo-bitseek"),
    ("Xerotier", "/xerotier/proj_demo/river/v1", "xerotier", "tributary/demo-question"),
]


@dataclass(frozen=True)
class Chain:
    fake: FakeUpstream
    first: ProgramSite
    last: ProgramSite


@pytest.fixture(scope="package")
def chain(tmp_path_factory: pytest.TempPathFactory, migrated_database: Path) -> Iterator[Chain]:
    fake = FakeUpstream.start_in_thread()
    first = _site(
        tmp_path_factory,
        migrated_database,
        [
            {
                "name": name,
                "dialect": dialect,
                "base_url": fake.url + path,
                "models": [model],
                "concurrency_limit": 1,
            }
            for name, path, dialect, model in SERVERS
        ],
    )
    try:
        first.start()
        last = _site(
            tmp_path_factory,
            migrated_database,
            [
                {
                    "name": "The first",
                    "dialect": "lmstudio",
                    "base_url": first.url,
                    "key": first.token,
                    "models": [model for *_, model in SERVERS],
                }
            ],
        )
        try:
            last.start()
            yield Chain(fake, first, last)
        finally:
            last.close()
    finally:
        first.close()
        fake.stop()


def _site(
    folders: pytest.TempPathFactory, database: Path, servers: list[dict[str, Any]]
) -> ProgramSite:
    folder = folders.mktemp("chained")
    shutil.copy(database, folder / "tributary.sqlite3")
    return ProgramSite(folder, servers)


@pytest.fixture
def site(chain: Chain) -> ProgramSite:
    """The first one alone."""
    return chain.first


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that start the sites are tests of processes."""
    for item in items:
        if HERE in item.path.parents and {"chain", "site"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.process)
