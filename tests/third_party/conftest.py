"""A third-party server with a model that is trained on the spot, and a runner that asks it."""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import URLError

import pytest
from django.conf import settings

from chat.conversations.actions import conversation
from chat.conversations.actions import messages as message_actions
from chat.conversations.actions.messages import ModelChoice
from chat.core.notify import ChangeNotifier
from chat.core.threads import DatabaseThreads, readers
from chat.models import Run, Team, Upstream, User
from chat.runs.event_buffer import MemoryEventBuffer
from chat.runs.runner import Runner
from tests.support.browser.site import free_port

HERE = Path(__file__).parent
ENVIRONMENT = Path(
    os.environ.get("THIRD_PARTY_VENV", settings.BASE_DIR / ".venv-third-party")
).absolute()
MODEL_FOLDER = Path(os.environ.get("THIRD_PARTY_MODEL", ENVIRONMENT / "model")).absolute()
MODEL = "tributary/brook"
# Importing torch on a machine that has other things to do.
START_SECONDS = 180.0

threads = DatabaseThreads("third-party", size=1)

JsonObject = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    url: str

    def ask_openai_client(self, *turns: JsonObject, **parameters: object) -> JsonObject:
        """The answer to these messages as OpenAI's own client reads it."""
        body = {"model": MODEL, "messages": list(turns), **parameters}
        made = subprocess.run(
            [ENVIRONMENT / "bin" / "python", HERE / "ask.py"],
            input=json.dumps({"base_url": self.url, "body": body}),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return json.loads(made.stdout)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model. Training it, where it is missing, takes a minute on two cores."""
    if not (ENVIRONMENT / "bin" / "transformers").exists():
        pytest.skip(
            f"THIRD-PARTY SERVER NOT INSTALLED: no transformers in {ENVIRONMENT.name}; "
            "`make third-party-server` installs it (docs/third-party-server.md)"
        )
    if not (MODEL_FOLDER / "hub").exists():
        command = [ENVIRONMENT / "bin" / "python", HERE / "make_tiny_model.py", MODEL_FOLDER]
        subprocess.run(command, check=True)
    return MODEL_FOLDER


@pytest.fixture(scope="session")
def server(model_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    port = free_port()
    log_path = tmp_path_factory.mktemp("third-party") / "server.log"
    with log_path.open("wb") as log:
        process = subprocess.Popen(
            [HERE / "serve.sh", ENVIRONMENT, str(port)],
            env={**os.environ, "THIRD_PARTY_MODEL": str(model_folder)},
            stdout=log,
            stderr=log,
        )
    try:
        _until_it_serves(process, f"http://127.0.0.1:{port}/health", log_path)
        yield Server(url=f"http://127.0.0.1:{port}/v1")
    finally:
        process.terminate()
        process.wait()


def _until_it_serves(process: subprocess.Popen[bytes], url: str, log_path: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url):
                return
        except URLError:
            time.sleep(0.1)
    pytest.fail(f"the third-party server did not start:\n{log_path.read_text()[-2000:]}")


@dataclass(slots=True, kw_only=True)
class Room:
    """One conversation with the server, by the actions that the pages use."""

    user: User
    team: Team
    upstream: Upstream
    model: str = MODEL
    run: Run | None = field(default=None)

    def send(self, text: str, **parameters: object) -> Run:
        """Starts the conversation, or follows its last answer."""
        choice, key = self._choice(parameters), uuid.uuid4()
        if self.run is None:
            self.run = message_actions.start_conversation(
                self.user, self.team, text=text, choice=choice, idempotency_key=key
            )
            return self.run
        self.run = message_actions.send_message(
            self.user,
            self.run.conversation,
            parent=self.run.message,
            text=text,
            choice=choice,
            idempotency_key=key,
        )
        return self.run

    def try_again(self, **parameters: object) -> Run:
        assert self.run is not None
        self.run = message_actions.retry(
            self.user,
            self.run.message,
            choice=self._choice(parameters),
            idempotency_key=uuid.uuid4(),
        )
        return self.run

    def stop(self) -> bool:
        assert self.run is not None
        return conversation.stop_run(self.user, self.run)

    def _choice(self, parameters: Mapping[str, object]) -> ModelChoice:
        return ModelChoice(upstream=self.upstream, model=self.model, parameters=parameters)


@pytest.fixture
def room(server: Server, transactional_db: None, alice: User, team: Team) -> Room:
    upstream = Upstream.objects.create(
        name="Third party", dialect="openai_chat", base_url=server.url
    )
    return Room(user=alice, team=team, upstream=upstream)


@pytest.fixture
async def runner(transactional_db: None) -> AsyncIterator[Runner]:
    runner = Runner(tail=MemoryEventBuffer(), notifier=ChangeNotifier())
    await runner.start()
    yield runner
    await runner.drain(0)
    await threads.close()
    await readers.close()
