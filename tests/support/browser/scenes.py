"""The demo's servers, which play a scene for each request that they know."""

import re
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from uuid import UUID

from tests.support.browser.site import BrowserSite
from tests.support.processes.site import ROOT, environment

# Scenes that take seconds for a person take a moment here, but still arrive piece by piece.
SPEED = 40.0
TOOLS = ("find_invoices", "send_reminder")

MAKE = f"""
import django
django.setup()
from chat.servers.actions.demo import ensure_demo_upstream
from chat.models import Team, Tool
ensure_demo_upstream()
schema = {{"type": "object", "properties": {{"station": {{"type": "string"}}}}}}
for name in {TOOLS!r}:
    Tool.objects.create(team=Team.objects.get(), name=name, schema=schema)
"""


@dataclass(frozen=True, slots=True)
class Scene:
    """What to ask, how the answer ends, and what of it is then on the page."""

    dialect: str
    model: str
    text: str
    status: str = "completed"
    shows: tuple[str, ...] = ()
    # Selectors of elements in the answer.
    has: tuple[str, ...] = ()
    has_tools: bool = False
    # Parameters of the request.
    asks: dict[str, str] = field(default_factory=dict)
    # What is there when its questions have been answered.
    then: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        words = (self.dialect, self.model, self.text, *self.asks)
        return re.sub(r"\W+", "-", "-".join(words)).strip("-")


class SceneSite(BrowserSite):
    """The servers of the demo, as `make run` sets them up, and a team with two tools."""

    def furnish(self) -> None:
        settings = {
            "DEMO_UPSTREAM_URL": self.fake.url,
            "DJANGO_SETTINGS_MODULE": "project.settings",
        }
        subprocess.run(
            [sys.executable, "-c", MAKE],
            cwd=ROOT,
            env={**environment(self.folder), **settings},
            check=True,
        )
        self.tools = [row["public_id"] for row in self.rows("SELECT public_id FROM chat_tool")]

    def ask(self, scene: Scene) -> UUID:
        """A conversation with one of the demo's models; the run that answers."""
        server = self.value(
            "SELECT public_id FROM chat_upstream WHERE is_demo AND dialect = ?", scene.dialect
        )
        key = uuid.uuid4()
        with self.browser("Alice") as browser:
            answer = browser.post(
                "/c/",
                data={
                    "text": scene.text,
                    "choice": f"{UUID(server).hex}:tributary/{scene.model}",
                    "key": str(key),
                    "team": self.world.team,
                    "visibility": "team",
                    "tools": [str(UUID(tool)) for tool in self.tools] if scene.has_tools else [],
                    **{f"{scene.dialect}-{name}": value for name, value in scene.asks.items()},
                },
            )
        assert answer.status_code == 302, answer.text
        return self._run_of(key)
