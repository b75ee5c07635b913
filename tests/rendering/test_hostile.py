"""Nothing that an upstream writes becomes markup, wherever in an event it stands."""

import base64
import re

import pytest

from chat import events
from chat.events import Event
from chat.rendering.markdown import render
from chat.rendering.parts import UnsafePatch, partial
from chat.rendering.patches import Answer
from tests.rendering.dom import Element, Page, parse
from tests.rendering.stories import RUN, end, message, numbered

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

OURS = {
    *("div", "section", "details", "summary", "svg", "use", "span", "time", "button", "ol", "ul"),
    *("li", "p", "pre", "code", "a", "em", "strong", "s", "h1", "h2", "table", "thead", "tbody"),
    *("tr", "th", "td", "label", "sup", "blockquote", "figure", "figcaption", "img", "input"),
    *("progress", "br", "rect", "audio"),
}
KEPT = re.compile(r"/r/[0-9a-f-]{36}/(artifacts|mockups)/\d+/")
MEDIUM = re.compile(r"/r/[0-9a-f-]{36}/media/\d+/\d+/\d+/")
ATTRIBUTES = {
    *("id", "class", "dir", "href", "rel", "target", "title", "aria-hidden", "type", "disabled"),
    *("checked", "start", "align", "data-copy", "data-elapsed-ms", "data-since-ms", "src", "alt"),
    *("max", "value", "aria-label", "open", "data-part", "data-panel", "data-file"),
    *("name", "tabindex", "role", "aria-live", "controls", "preload", "download"),
}
# The bar of times: these attributes, there alone, and with no value but its own.
BAR = {
    **dict.fromkeys(("x", "y", "width", "height", "rx"), r"\d+%?"),
    "viewbox": r"0 0 \d+ \d+",
    "preserveaspectratio": "none",
    "focusable": "false",
}
# Whatever has these has words of ours in them.
PLAIN = {"tabindex": r"-?[01]", "role": "[a-z]+", "aria-live": "off|polite"}


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
        events.ActivityStep(family=text, step=text, phase="start", label=text),
        events.ContextFork(branch_id=text, branch_name=text),
        events.VendorRaw(dialect="x", event=text, text=text),
        events.Error(error=error),
        end("failed", error=error),
    ]


def assert_tame(element: Element) -> None:
    for one in element.elements()[1:]:
        assert one.tag in OURS | {"hr", "hx-partial"}
        assert set(one.attributes) <= ATTRIBUTES | BAR.keys()
        for name in one.attributes.keys() & BAR.keys():
            assert one.tag in ("svg", "rect")
            assert re.fullmatch(BAR[name], one.attributes[name])
        for name in one.attributes.keys() & PLAIN.keys():
            assert re.fullmatch(PLAIN[name], one.attributes[name])
        if one.tag == "a":
            within = f"#r{RUN}-"
            href = one.attributes.get("href", within)
            # The one way within the application: to what this run has made.
            is_ours = KEPT.fullmatch(href) is not None
            is_download = MEDIUM.fullmatch(href.removesuffix("?download")) is not None
            assert is_ours or is_download or href.startswith(("https://", "mailto:", within))
            assert ("download" in one.attributes) == is_download
            assert ("data-panel" in one.attributes) == is_ours
        if one.tag == "img":
            assert one.attributes["src"].startswith("data:image/")
        if one.tag == "audio":
            assert MEDIUM.fullmatch(one.attributes["src"])
        if one.tag == "use":
            assert one.attributes["href"].startswith("/static/icons.svg#")
        if "id" in one.attributes:
            assert RUN in one.attributes["id"]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_field_of_any_event_becomes_markup(text: str) -> None:
    answer = Answer(RUN)
    page = Page(RUN, answer.snapshot(), answer.phase())

    for event in numbered(everywhere(text)):
        seen = answer.seq
        answer.apply(event)
        page.apply(answer.patches_since(seen))

    assert page.state() == Page(RUN, answer.snapshot(), answer.phase()).state()
    assert [each for each in page.answer.elements() if each.tag == "audio"]
    assert_tame(page.answer)
    assert_tame(page.strip)


@pytest.mark.parametrize("text", HOSTILE)
def test_markdown_carries_no_foreign_attribute(text: str) -> None:
    root = parse(render(text, f"r{RUN}-i0"))

    assert_tame(root)
    assert not [e for e in root.elements() if "style" in e.attributes]
    # Notes have ids, and no word of the text is in them.
    ids = [e.attributes["id"] for e in root.elements() if "id" in e.attributes]
    assert all(re.fullmatch(rf"r{RUN}-i0-(?:note|ref)\d+(?:-\d+)?", id) for id in ids)


@pytest.mark.parametrize(
    "content",
    ["</hx-partial>", "<HX-on>", "a<template>", "</TEMPLATE>", "<head>", "<HEAD x>", "<header>"],
)
def test_the_encoder_refuses_what_htmx_would_rewrite(content: str) -> None:
    with pytest.raises(UnsafePatch):
        partial("x", "innerHTML", content)


def test_escaped_markup_passes_the_encoder() -> None:
    assert "&lt;hx-partial&gt;" in partial("x", "beforeend", "&lt;hx-partial&gt;")


def test_an_undeclared_picture_is_not_shown_as_one() -> None:
    answer = Answer(RUN)
    for event in numbered(
        [
            events.MediaUpdate(item=0, media_id="a", media_type="image/svg+xml", data="PHN2Zz4="),
            events.MediaUpdate(item=1, media_id="b", media_type="image/png", data='"><script>'),
        ]
    ):
        answer.apply(event)

    assert "<img" not in answer.snapshot()


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_fold_brings_is_tame_as_well(text: str) -> None:
    answer = Answer(RUN)
    marked = events.Citation(kind=text, title=text, url=f"https://x.org/{text}", end=3)
    for event in numbered(
        [
            events.MessageStart(item=3),
            events.MessageDelta(item=3, content=text),
            events.CitationAdd(item=3, citation=marked),
            events.LogprobsAdd(item=3, tokens=[{"token": text, "logprob": -1.0}]),
            events.MessageEnd(item=3),
            events.ToolCallSuccess(item=4, tool="t", arguments={}, output=f'{{"a": ["{text}"]}}'),
            events.ToolCallSuccess(item=5, tool="t", arguments={}, output=text * 400),
            end(),
        ]
    ):
        answer.apply(event)
    answer.unfold()

    page = Page(RUN, answer.snapshot(), "")
    assert_tame(page.answer)


def test_no_viewer_can_tell_from_the_fragment_who_looks() -> None:
    answer = Answer(RUN)
    for event in numbered(everywhere("text")):
        answer.apply(event)

    tags = {element.tag for element in parse(answer.snapshot()).elements()}

    assert not tags & {"form", "textarea", "select"}
