"""The dialects: every module or package in here whose ``dialect`` is one is found by name.

Pure functions. It imports only `wire` and `events`, and a dialect imports another one only to
extend it.
"""

import importlib
import pkgutil
from importlib.util import find_spec

from chat.dialects.base import Dialect


def _discover() -> dict[str, Dialect]:
    found: dict[str, Dialect] = {}
    for module in pkgutil.iter_modules(__path__):
        place = f"{__name__}.{module.name}"
        if module.ispkg:
            place = f"{place}.dialect"
            if find_spec(place) is None:
                continue
        dialect = getattr(importlib.import_module(place), "dialect", None)
        if isinstance(dialect, Dialect):
            found[dialect.name] = dialect
    return found


DIALECTS: dict[str, Dialect] = _discover()


def get(name: str) -> Dialect:
    """Raises ``KeyError`` with a sentence that names the existing dialects."""
    try:
        return DIALECTS[name]
    except KeyError:
        known = ", ".join(sorted(DIALECTS))
        raise KeyError(f"There is no dialect {name!r}; there are: {known}.") from None
