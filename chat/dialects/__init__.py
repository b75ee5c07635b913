"""Finds the dialects: every module of this package that defines ``dialect``."""

import importlib
import pkgutil

from chat.dialects.base import Dialect


def _discover() -> dict[str, Dialect]:
    found: dict[str, Dialect] = {}
    for module in pkgutil.iter_modules(__path__):
        dialect = getattr(importlib.import_module(f"{__name__}.{module.name}"), "dialect", None)
        if isinstance(dialect, Dialect):
            found[dialect.name] = dialect
    return found


DIALECTS: dict[str, Dialect] = _discover()


def get(name: str) -> Dialect:
    """Raises ``KeyError`` with a sentence that names the dialects there are."""
    try:
        return DIALECTS[name]
    except KeyError:
        known = ", ".join(sorted(DIALECTS))
        raise KeyError(f"There is no dialect {name!r}; there are: {known}.") from None
