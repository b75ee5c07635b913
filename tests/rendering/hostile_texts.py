"""Texts that try to become markup, a run that is full of one, and what a page may contain."""

import base64
import re

from chat import events
from chat.events import Event
from tests.rendering.dom import Element
from tests.rendering.stories import RUN, end, message

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><b hx-get="/logout" hx-trigger="load">',
    "<div hx-swap-oob='true' id='composer'>x</div>",
    "</hx-partial><hx-partial hx-target='#composer' hx-swap='innerHTML'>x</hx-partial>",
    "<HX-Partial hx-target=body>",
    "</template><template hx type='partial' hx-target='body'>x</template>",
    "<head><title>owned</title></head>",
    "<title>owned</title>",
    "[a](javascript:alert(1)) ![b](javascript:alert(1)) <javascript:alert(1)>",
    '[a](https://x.org "<hx-b hx-get=/x>")',
    "[a](https://x.org/<hx-b> '\" onclick=alert(1) x=\"')",
    '```"><script>alert(1)</script>\nx\n```',
    "```<hx-partial>\n</hx-partial></code></pre><b id=composer>\n```",
    "`</code><head>`",
    "<a href='https://x.org' style='position:fixed' class='card' id='composer'>x</a>",
    "<svg><use href='data:x'/></svg><math><mi//xlink:href='x'>",
    "&lt;script&gt;alert(1)&lt;/script&gt; &#60;hx-b&#62;",
    "| <hx-b> | x |\n|---|---|\n| </td></table><hx-partial> | <head> |",
    "- [x] <input autofocus onfocus=alert(1)>",
    "$<img src=x onerror=alert(1)>$ \\(</span><hx-b>\\) $$</span><script>alert(1)</script>$$",
    "$$\n</span></p><hx-partial hx-target=body>\n\\href{javascript:alert(1)}{x}\n$$\n",
    "<span class='math'>\\href{javascript:alert(1)}{x}</span>",
    "[<hx-b>]: https://x.org '<head>'\n\n[<hx-b>]",
    '<sup>1</sup>[^"onclick=x][^<hx-b>]\n\n[^"onclick=x]: </li></ol><hx-partial>\n[^<hx-b>]: <sup>0</sup>',
]

ELEMENTS = {
    *("div", "section", "details", "summary", "svg", "use", "span", "time", "button", "ol", "ul"),
    *("li", "p", "pre", "code", "a", "em", "strong", "s", "h1", "h2", "table", "thead", "tbody"),
    *("tr", "th", "td", "label", "sup", "blockquote", "figure", "figcaption", "img", "input"),
    *("progress", "br", "rect", "audio"),
}
PRODUCT_LINK = re.compile(r"/r/[0-9a-f-]{36}/(artifacts|mockups)/\d+/")
MEDIUM_LINK = re.compile(r"/r/[0-9a-f-]{36}/media/\d+/\d+/\d+/")
ATTRIBUTES = {
    *("id", "class", "dir", "href", "rel", "target", "title", "aria-hidden", "type", "disabled"),
    *("checked", "start", "align", "data-copy", "data-elapsed-ms", "data-since-ms", "src", "alt"),
    *("max", "value", "aria-label", "open", "data-part", "data-panel", "data-file"),
    *("form", "name", "tabindex", "role", "aria-live", "controls", "preload", "download"),
    *("data-token", "scope"),
}
# Only elements of the latency bar have these, with values of these patterns.
BAR_ATTRIBUTES = {
    **dict.fromkeys(("x", "y", "width", "height", "rx"), r"\d+%?"),
    "viewbox": r"0 0 \d+ \d+",
    "preserveaspectratio": "none",
    "focusable": "false",
}
# Values of these come from us, so they have one of these patterns.
PATTERNS = {
    "form": f"retry-{RUN}",
    "tabindex": r"-?[01]",
    "role": "[a-z]+",
    "aria-live": "off|polite",
    "data-token": r"\d+",
    "scope": "row",
}


WAVE = base64.b64encode(b"RIFF\x10\n\x00\x00WAVEfmt ").decode()


def everywhere(text: str) -> list[Event]:
    """A run that carries the text in every field that is shown."""
    failure = events.FailureMetadata(type="invalid_name", tool_name=text)
    provider = events.ProviderInfo(type="plugin", plugin_id=text)
    citation = events.Citation(kind=text, title=text, url=f"https://x.org/{text}", cited_text=text)
    error = events.ErrorInfo(kind="server", message=text, code=text, param=text)
    return [
        events.ChatStart(model_instance_id=text),
        events.ModelLoadProgress(model_instance_id=text, progress=0.5),
        events.ReasoningStart(item=0),
        events.ReasoningDelta(item=0, content=text),
        events.ReasoningEnd(item=0),
        events.ToolCallStart(item=1, tool=text, provider_info=provider),
        events.ToolCallDelta(item=1, fragment=text),
        events.ToolCallArguments(item=1, tool=text, arguments={text: text}),
        events.ToolCallSuccess(item=1, tool=text, arguments={text: text}, output=text),
        events.ToolCallFailure(item=2, reason=text, metadata=failure, arguments_raw=text),
        *message(text, item=3, size=4),
        events.CitationAdd(item=3, citation=citation),
        events.LogprobsAdd(item=3, tokens=[{"token": text, "logprob": -1.0, "top_logprobs": []}]),
        events.RefusalDelta(item=4, content=text, category=text),
        events.MediaUpdate(
            item=5, media_id="m", media_type=text, data=text, url=text, transcript=text
        ),
        events.MediaUpdate(item=6, media_id="m", media_type="image/png", data=text),
        events.MediaUpdate(
            item=7, media_id=text, media_type=f"audio/{text}", data=WAVE, transcript=text
        ),
        events.ArtifactUpdate(
            op="created", artifact_id=text, title=text, language=text, content=text
        ),
        events.MockupUpdate(
            op="error", identifier=text, message=text, code=text, files=[{"path": text}]
        ),
        events.MockupUpdate(op="error", identifier="x", successful_paths=[text], failed_path=text),
        events.AskQuestion(ask_id=text, question=text, options=[text, {"label": text}]),
        events.AskQuestion(
            ask_id=f"{text}!",
            question=text,
            style="approval",
            tool=text,
            arguments={text: text, f"{text}1": [text], f"{text}2": f"{text}\n" * 20},
            provider_info=events.ProviderInfo(type=text, server_label=text),
        ),
        events.ActivityStep(family=text, step=text, phase="start", label=text),
        events.ContextFork(branch_id=text, branch_name=text),
        events.VendorRaw(dialect="x", event=text, text=text),
        events.Error(error=error),
        end("failed", error=error),
    ]


def assert_harmless(element: Element) -> None:
    """All below it are elements and attributes that our own code writes."""
    for one in element.elements()[1:]:
        assert one.tag in ELEMENTS | {"hr", "hx-partial"}
        assert set(one.attributes) <= ATTRIBUTES | BAR_ATTRIBUTES.keys()
        for name in one.attributes.keys() & BAR_ATTRIBUTES.keys():
            assert one.tag in ("svg", "rect")
            assert re.fullmatch(BAR_ATTRIBUTES[name], one.attributes[name])
        for name in one.attributes.keys() & PATTERNS.keys():
            assert re.fullmatch(PATTERNS[name], one.attributes[name])
        if one.tag == "a":
            within = f"#r{RUN}-"
            href = one.attributes.get("href", within)
            # The only links into the application lead to what this run has made.
            is_ours = PRODUCT_LINK.fullmatch(href) is not None
            is_download = MEDIUM_LINK.fullmatch(href.removesuffix("?download")) is not None
            assert is_ours or is_download or href.startswith(("https://", "mailto:", within))
            assert ("download" in one.attributes) == is_download
            assert ("data-panel" in one.attributes) == is_ours
        if one.tag == "img":
            assert one.attributes["src"].startswith("data:image/")
        if one.tag == "audio":
            assert MEDIUM_LINK.fullmatch(one.attributes["src"])
        if one.tag == "use":
            assert one.attributes["href"].startswith("/static/icons.svg#")
        if "id" in one.attributes:
            assert RUN in one.attributes["id"]
