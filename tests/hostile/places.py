"""The places of an answer that may hold an address: HTML made from an address, by place."""

from __future__ import annotations

import json
from collections.abc import Callable

from chat import events
from chat.rendering.markdown import render
from tests.rendering.stories import answer_of, message


def answer_with(*story: events.Event) -> str:
    answer = answer_of(*story)
    answer.unfold()
    return answer.snapshot()


def tool_result(output: str) -> str:
    return answer_with(events.ToolCallSuccess(item=0, tool="read", arguments={}, output=output))


def citation(url: str) -> str:
    source = events.Citation(kind="url", title="Source", url=url, end=3)
    return answer_with(*message("Said.", item=0), events.CitationAdd(item=0, citation=source))


def medium(url: str) -> str:
    return answer_with(events.MediaUpdate(item=0, media_id="m", media_type="image/png", url=url))


def inline_medium(url: str) -> str:
    """An address in place of the bytes of a picture."""
    return answer_with(events.MediaUpdate(item=0, media_id="m", media_type="image/png", data=url))


def step(url: str) -> str:
    return answer_with(
        events.ActivityStep(
            family="research",
            step="read",
            phase="done",
            label=f"Read {url}",
            detail={"arguments": {"url": url}},
        )
    )


PLACES: dict[str, Callable[[str], str]] = {
    "link": lambda url: render(f"[words]({url})"),
    "link in brackets": lambda url: render(f"[words](<{url}> 'title')"),
    "definition": lambda url: render(f"[words][r] [r] ![r]\n\n[r]: <{url}>"),
    "bare definition": lambda url: render(f"[r]\n\n[r]: {url}\n"),
    "picture": lambda url: render(f"![words]({url}) ![words](<{url}>)"),
    "autolink": lambda url: render(f"<{url}>"),
    "text": lambda url: render(f"{url} and {url}"),
    "cell": lambda url: render(f"| a |\n|---|\n| [x](<{url}>) |"),
    "citation": citation,
    "medium": medium,
    "inline medium": inline_medium,
    "tool result": tool_result,
    "tool result in JSON": lambda url: tool_result(json.dumps({"url": url, url: [url]})),
    "tool result in parts": lambda url: tool_result(
        json.dumps([{"type": "text", "text": url}, {"type": "image", "mimeType": url, "data": url}])
    ),
    "step": step,
}
