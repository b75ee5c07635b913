"""The servers of the demo and their models, as `data/models.toml` lists them."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

# 2026-01-01T00:00:00Z, the time in lists of models: constant, so the lists of all processes agree.
CREATED = 1_767_225_600

# Where the server of tools is below the demo's root.
MCP_PATH = "/mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoModel:
    """A model. Without a label it is not in the picker, but can be asked for by its id."""

    id: str
    label: str = ""
    thinks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoServer:
    """One API of the demo. `path` is what the dialect expects below the demo's root."""

    name: str
    dialect: str
    path: str
    chat: str
    models: tuple[DemoModel, ...]
    models_path: str = ""

    @property
    def has_one_model(self) -> bool:
        """True if requests may leave the model out."""
        return len(self.models) == 1

    def find(self, name: object) -> DemoModel | None:
        return next((model for model in self.models if model.id == name), None)

    @property
    def openai_list(self) -> dict[str, object]:
        """The models as OpenAI and most others list them."""
        entries = [
            {"id": model.id, "object": "model", "created": CREATED, "owned_by": "tributary"}
            for model in self.models
        ]
        return {"object": "list", "data": entries}


def _read_list() -> tuple[DemoServer, ...]:
    text = (Path(__file__).parent / "data" / "models.toml").read_text()
    return tuple(
        DemoServer(**{**server, "models": tuple(DemoModel(**model) for model in server["models"])})
        for server in tomllib.loads(text)["servers"]
    )


DEMO_SERVERS = _read_list()
