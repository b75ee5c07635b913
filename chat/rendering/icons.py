"""The addresses of icons, in HTML that is built without templates."""

from collections.abc import Callable
from functools import cache

_find_sprite: Callable[[], str] | None = None


def use_sprite(find: Callable[[], str]) -> None:
    """``find`` gives the address of the sprite. It is asked when HTML is first rendered: before that
    the static files may not be built yet."""
    global _find_sprite
    _find_sprite = find
    icon_url.cache_clear()


@cache
def icon_url(name: str) -> str:
    sprite = _find_sprite() if _find_sprite else "/static/icons.svg"
    return f"{sprite}#{name}"
