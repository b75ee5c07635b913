"""The addresses of icons, in HTML that is built without templates."""

from collections.abc import Callable
from functools import cache

_find_sprite: Callable[[], str] | None = None


def use_sprite(find: Callable[[], str]) -> None:
    """``find`` returns the address of the sprite. It is called when HTML is first rendered, because
    the static files may not be built before."""
    global _find_sprite
    _find_sprite = find
    icon_url.cache_clear()


@cache
def icon_url(name: str) -> str:
    sprite = _find_sprite() if _find_sprite else "/static/icons.svg"
    return f"{sprite}#{name}"
