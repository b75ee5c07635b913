"""The demo's further APIs: every module or folder here that defines ``api`` is served."""

import importlib
import pkgutil
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from chat.demo.http import Exchange
from chat.demo.scenes import Pace

Handler = Callable[[Exchange, Pace], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoApi:
    """One API of the demo upstream, below a path of its own.

    ``routes`` maps method and path (below ``path``) to a handler; a path that ends in ``*`` fits
    whatever begins with it. A handler answers its own errors.
    """

    dialect: str
    path: str
    routes: Mapping[tuple[str, str], Handler]

    def find(self, method: str, path: str) -> Handler | None:
        if not path.startswith(f"{self.path}/"):
            return None
        below = path[len(self.path) :]
        exact = self.routes.get((method, below))
        if exact is not None:
            return exact
        return next(
            (
                handler
                for (verb, pattern), handler in self.routes.items()
                if verb == method and pattern.endswith("*") and below.startswith(pattern[:-1])
            ),
            None,
        )


def _discover() -> tuple[DemoApi, ...]:
    found = []
    for module in pkgutil.iter_modules(__path__):
        place = f"{__name__}.{module.name}" + (".server" if module.ispkg else "")
        api = getattr(importlib.import_module(place), "api", None)
        if isinstance(api, DemoApi):
            found.append(api)
    return tuple(found)


APIS = _discover()


def find(method: str, path: str) -> Handler | None:
    return next((handler for api in APIS if (handler := api.find(method, path))), None)
