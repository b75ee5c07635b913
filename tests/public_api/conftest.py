"""Two sites in processes, one the server of the other, and a fake upstream behind the first."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.public_api.site import ProgramSite
from tests.support.upstream.fake import FakeUpstream

HERE = Path(__file__).parent
# Server of the first site, its path at the fake, its dialect, and a model of it.
SERVERS = [
    ("LM Studio", "", "lmstudio", "tributary/demo-reasoner"),
    ("OpenAI", "/v1", "openai_chat", "tributary/demo-writer"),
    ("Messages", "/anthropic/v1", "anthropic_messages", "tributary/demo-thinker"),
    ("Responses", "/responses/v1", "openai_responses", "tributary/demo-agent"),
    ("Completions", "/completions/v1", "openai_completions", "tributary/demo-base"),
    ("Bitseek", "/bitseek/v1", "bitseek", "tributary/demo-bitseek"),
    ("Xerotier", "/xerotier/proj_demo/team/v1", "xerotier", "tributary/demo-question"),
]
MODELS = [model for *_, model in SERVERS]


@dataclass(frozen=True)
class Chain:
    fake: FakeUpstream
    first: ProgramSite
    last: ProgramSite


@pytest.fixture(scope="package")
def chain(tmp_path_factory: pytest.TempPathFactory, migrated_database: Path) -> Iterator[Chain]:
    with ExitStack() as stack:

        def launch(*servers: dict[str, Any]) -> ProgramSite:
            folder = tmp_path_factory.mktemp("chained")
            shutil.copy(migrated_database, folder / "tributary.sqlite3")
            site = ProgramSite(folder, servers)
            stack.callback(site.close)
            site.launch()
            return site

        fake = FakeUpstream.start_in_thread()
        stack.callback(fake.stop)
        first = launch(
            *(
                {
                    "name": name,
                    "dialect": dialect,
                    "base_url": fake.url + path,
                    "models": [model],
                    "concurrency_limit": 1,
                }
                for name, path, dialect, model in SERVERS
            )
        )
        # It is prepared while the first one starts.
        last = launch(
            {
                "name": "The first",
                "dialect": "lmstudio",
                "base_url": first.url,
                "key": first.tokens["alice"],
                "models": MODELS,
            }
        )
        for site in (first, last):
            site.until_ready()
        yield Chain(fake, first, last)


@pytest.fixture
def site(chain: Chain) -> ProgramSite:
    """The first one alone."""
    return chain.first


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that start the sites are tests of processes."""
    for item in items:
        if HERE in item.path.parents and {"chain", "site"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.process)
