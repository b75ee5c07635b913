"""The text of an answer: code tools, formulas, diagrams, footnotes, the same live and reloaded."""

from pathlib import Path

import pytest
from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import FrameLocator, expect

from tests.support.browser import streams
from tests.support.browser.displays import serious_findings
from tests.support.browser.people import OpenTab
from tests.support.browser.site import BrowserSite
from tests.support.browser.streams import gate
from tests.support.browser.tab import NO_STORAGE, Tab

LINE = f"words = {' + '.join(str(number) for number in range(200))}"
CODE = f"{LINE}\nprint(words)\n"


# --- code ----------------------------------------------------------------------------------


def test_code_is_downloaded_live_and_afterwards(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling(f"```python\n{CODE}", gate("more"), "more()\n```\n", "End."))
    alice = tab("Alice", site.room(site.send("Code."))).shows("print(words)")

    def kept() -> tuple[str, str]:
        with alice.page.expect_download() as download:
            alice.answer.get_by_role("button", name="Download").click()
        return download.value.suggested_filename, Path(download.value.path()).read_text()

    assert kept() == ("code.py", CODE)
    site.fake.release("more")
    alice.shows("End.").until_ended()

    assert kept() == ("code.py", f"{CODE}more()\n")
    live = alice.normalized()
    assert live == alice.reload().normalized()


def test_line_wrapping_is_remembered(site: BrowserSite, tab: OpenTab) -> None:
    blocks = f"```python\n{CODE}```\n\ntext\n\n```\n{CODE}```\n\n"
    site.fake.script(streams.telling(blocks * 6, gate("more"), f"```js\n{CODE}", gate("end")))
    alice = tab("Alice", site.room(site.send("Code."))).shows("print(words)")
    wrap = alice.answer.get_by_role("button", name="Wrap lines").nth(6)
    widest = "() => Math.max(...[...document.querySelectorAll('.codeblock pre')].map(pre => pre.scrollWidth - pre.clientWidth))"
    wrap.scroll_into_view_if_needed()
    assert alice.page.evaluate(widest) > 500
    top = wrap.bounding_box()["y"]

    wrap.click()

    assert alice.page.evaluate(widest) <= 0
    assert abs(wrap.bounding_box()["y"] - top) < 2
    site.fake.release("more")
    expect(alice.answer.locator(".open .codeblock")).to_contain_text("print(words)")
    assert alice.page.evaluate(widest) <= 0
    site.fake.release("end")
    alice.until_ended().reload()
    assert alice.page.evaluate(widest) <= 0
    alice.answer.get_by_role("button", name="Wrap lines").last.click()
    assert alice.page.evaluate(widest) > 500


def test_lines_wrap_without_storage(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling(f"```\n{CODE}```\n"))
    run = site.send("Code.")
    alice = tab("Alice")
    alice.add_init_script(f"({NO_STORAGE})()")
    alice.open(site.room(run)).until_ended()
    wrap = alice.answer.get_by_role("button", name="Wrap lines")

    wrap.click()

    expect(alice.page.locator("html")).to_have_class("wraps-code")
    expect(alice.page.locator("#polite")).to_have_text("Long lines of code wrap.")
    # It is stored for Alice, whom later tests have, too.
    with alice.page.expect_response("**/settings/code-wrap/"):
        wrap.click()


def test_phone_code_tools_cover_no_code(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling(f"```\n{CODE}```\n"))
    phone = {"viewport": {"width": 390, "height": 800}, "has_touch": True, "is_mobile": True}
    alice = tab("Alice", site.room(site.send("Code.")), **phone).until_ended()

    tools = alice.answer.locator(".code-tools").bounding_box()
    code = alice.answer.locator("pre code").bounding_box()

    assert tools["y"] + tools["height"] <= code["y"]


def test_hidden_code_tools_are_transparent(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling(f"```\n{CODE}```\n"))
    alice = tab("Alice", site.room(site.send("Code."))).until_ended()
    tools = alice.answer.locator(".code-tools")
    nothing = "rgba(0, 0, 0, 0)"

    alice.page.mouse.move(0, 0)
    expect(tools).to_have_css("background-color", nothing)
    alice.answer.locator("pre").hover()
    expect(tools).not_to_have_css("background-color", nothing)


# --- lists ---------------------------------------------------------------------------------

LISTS = """9. nine
10. ten

    99. ninety-nine
    100. a hundred

text

42.

text

1965. a year
1966. and another

text

10. עשר
11. אחת עשרה

- שלום
"""


def test_list_markers_are_whole(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling(LISTS))
    alice = tab("Alice", site.room(site.send("Count."))).until_ended()
    expect(alice.answer.locator("ol")).to_have_count(5)
    box = alice.answer.bounding_box()
    sides = [box["x"] - 40, box["x"] + box["width"]]
    strips = [{"x": x, "y": 60, "width": 40, "height": 580} for x in sides]

    before = [alice.page.screenshot(clip=strip) for strip in strips]
    alice.answer.evaluate("answer => { answer.style.contain = 'none'; }")

    # What is cut off would now stand beside the answer.
    assert [alice.page.screenshot(clip=strip) for strip in strips] == before


# --- formulas --------------------------------------------------------------------------------

FORMULAS = r"""Inline $x_1^2$ and \(\alpha\), for $5 and $10.

$$
\boxed{a = \frac{1}{2}}
- \pmb{b}
$$

1. so $\sqrt{2}$

   \[
   \int_0^1 x\,dx
   \]

2. broken $\nosuch{x}$ and $\href{https://example.org}{x}$ and $\def\a{\a\a}\a$
"""
MORE_FORMULAS = """async () => { for (let n = 0; n < 9; n += 1) {
  const formula = document.createElement("span"); formula.className = "math"; formula.textContent = "$x$";
  document.querySelector("#turns .answer").append(formula);
  await new Promise(done => setTimeout(done, 30)); } }"""
DRAWN = "() => [document.querySelectorAll('.math').length, document.querySelectorAll('.math > [class^=katex]').length]"


@pytest.mark.smoke
def test_formulas_are_drawn_live_and_reloaded(site: BrowserSite, tab: OpenTab) -> None:
    pieces = [FORMULAS[at : at + 7] for at in range(0, len(FORMULAS), 7)]
    site.fake.script(streams.telling(*pieces, "\nand $z", gate("rest"), "^2$ then.\n\nEnd."))
    alice = tab("Alice", site.room(site.send("Formulas."))).shows("and $z")
    expect(alice.answer.locator(".open .katex").first).to_be_visible()

    site.fake.release("rest")
    alice.shows("End.").until_ended()

    alice.page.wait_for_function(
        "() => document.querySelectorAll('.math > [class^=katex]').length === 6"
    )
    assert alice.page.evaluate(DRAWN) == [9, 6]
    expect(alice.answer.locator("math")).to_have_count(6)
    expect(alice.answer).to_contain_text("for $5 and $10.")
    expect(alice.answer).to_contain_text(r"$\nosuch{x}$ and $\href{https://example.org}{x}$")
    expect(alice.answer.locator(".math a")).to_have_count(0)
    live = alice.normalized()
    alice.reload()
    alice.page.wait_for_function(
        "() => document.querySelectorAll('.math > [class^=katex]').length === 6"
    )
    assert live == alice.normalized()


def test_refused_formula_script_is_not_requested_again(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(
        streams.telling("So $x^2$", gate("more"), *[f" and $y_{n}$" for n in range(9)])
    )
    asked: list[str] = []
    alice = tab("Alice")
    alice.page.route("**/katex*", lambda route: asked.append(route.request.url) or route.abort())
    alice.open(site.room(site.send("Formulas."))).shows("$x^2$")
    alice.until(lambda: len(asked) > 0, "the first request")

    site.fake.release("more")
    alice.shows("$y_8$").until_ended()
    alice.page.evaluate(MORE_FORMULAS)
    alice.page.wait_for_timeout(300)

    assert len(asked) <= 2


def test_no_formula_script_without_formulas(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling("It costs $5 or $10."))
    asked: list[str] = []
    alice = tab("Alice")
    alice.on("request", lambda request: asked.append(request.url))

    alice.open(site.room(site.send("Tell us."))).until_ended()

    assert [url for url in asked if "katex" in url] == []


# --- diagrams --------------------------------------------------------------------------------

DIAGRAM = "```mermaid\nflowchart LR\n  A[Spring] --> B{Ford}\n  B --> C[Mouth]\n```\n"
BROKEN = "```mermaid\nflowchart LR\n  A[Spring --> \n```\n"
HOSTILE = """```mermaid
%%{init: {"securityLevel": "loose"}}%%
flowchart LR
  A["<img src=https://evil.example/x.png onerror=parent.document.title=1>"] --> B
  click B href "javascript:alert(1)"
```
"""


def drawn(tab: Tab, number: int = 0) -> FrameLocator:
    return tab.answer.frame_locator("iframe.drawing").nth(number)


def until_drawn(tab: Tab) -> Tab:
    expect(drawn(tab).locator("svg")).to_be_visible()
    expect(tab.answer.locator("iframe.drawing[data-height]")).to_have_count(1)
    return tab


def test_diagram_is_drawn_and_errors_are_shown(site: BrowserSite, tab: OpenTab) -> None:
    start, rest = DIAGRAM[:40], DIAGRAM[40:]
    site.fake.script(streams.telling(start, gate("rest"), rest, gate("broken"), BROKEN, "End."))
    alice = tab("Alice", site.room(site.send("Draw."))).shows("flowchart")
    expect(alice.answer.locator("iframe")).to_have_count(0)

    site.fake.release("rest")
    until_drawn(alice)
    site.fake.release("broken")
    alice.shows("Can’t draw this diagram: Parse error on line 4").until_ended()

    expect(drawn(alice).get_by_text("Spring")).to_be_visible()
    expect(alice.answer.locator(".codeblock.diagram pre").first).to_be_hidden()
    alice.button("Source").click()
    expect(alice.answer.locator(".codeblock.diagram pre").first).to_be_visible()
    alice.button("Source").click()
    live = alice.normalized()
    until_drawn(alice.reload()).shows("Can’t draw this diagram")
    assert live == alice.normalized()


def test_diagram_is_isolated(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling(HOSTILE))
    reached: list[str] = []
    alice = tab("Alice")
    alice.on("response", lambda response: reached.append(response.url))

    until_drawn(alice.open(site.room(site.send("Draw."))).until_ended())

    assert [url for url in reached if not url.startswith((site.url, "blob:", "data:"))] == []
    frame = next(frame for frame in alice.page.frames if frame.url.endswith("/frames/diagram/"))
    assert frame.evaluate("() => origin") == "null"
    assert (
        frame.evaluate("() => document.querySelectorAll('[onerror], [*|href^=javascript]').length")
        == 0
    )
    with pytest.raises(PlaywrightError):
        frame.evaluate("() => parent.document.title")
    with pytest.raises(PlaywrightError):
        frame.evaluate("() => fetch('/static/base/shell.js').then(answer => answer.text())")
    # Only the policy of the frame was violated, not that of the page around it.
    kept_from = ("evil.example", "inline event handler", "script-src-attr", "shell.js")
    assert [each for each in alice.violations if not any(one in each for one in kept_from)] == []
    alice.violations.clear()


# --- notes ---------------------------------------------------------------------------------


NOTED = "The river rises in spring[^rise].\n\n[^rise]: See *the gauges* of 1921.\n\n"
LONG = "A paragraph of the journey.\n\n" * 60


def test_footnote_links_lead_there_and_back(site: BrowserSite, tab: OpenTab) -> None:
    site.fake.script(streams.telling(NOTED, LONG, gate("more"), "End."))
    alice = tab("Alice", site.room(site.send("Rivers."))).shows("[^rise]: See")
    site.fake.release("more")
    alice.shows("End.").until_ended()
    mark = alice.answer.get_by_role("link", name="Note 1", exact=True)
    note = alice.answer.locator(".notes > li")
    mark.scroll_into_view_if_needed()
    expect(note).not_to_be_in_viewport()

    mark.click()
    expect(note).to_be_in_viewport()
    expect(note).to_contain_text("See the gauges of 1921.")
    assert serious_findings(alice.page, within=".notes") == []
    note.get_by_role("link", name="Back to the text from note 1").click()

    expect(mark).to_be_in_viewport()
    live = alice.normalized()
    assert live == alice.reload().normalized()
