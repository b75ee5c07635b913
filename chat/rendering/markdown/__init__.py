"""The incremental Markdown renderer: text to safe HTML, whole or block by block."""

from chat.rendering.markdown.html import (
    code_block,
    diagram,
    picture_addresses,
)
from chat.rendering.markdown.parser import (
    References,
    Scope,
)
from chat.rendering.markdown.ranges import render_ranges
from chat.rendering.markdown.renderer import (
    Outline,
    clean_source,
    plain,
    render,
    render_block,
    render_blocks,
)

__all__ = [
    "Outline",
    "References",
    "Scope",
    "clean_source",
    "code_block",
    "diagram",
    "picture_addresses",
    "plain",
    "render",
    "render_block",
    "render_blocks",
    "render_ranges",
]
