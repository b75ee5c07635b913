"""The model picker: searched by keyboard, by server, and with the parameters of what was chosen."""

from playwright.sync_api import expect

from tests.support.browser.displays import DESKTOP_DARK, serious_findings
from tests.support.browser.people import OpenTab, People
from tests.support.browser.scenes import SceneSite


def test_picker_is_searched_and_brings_its_parameters(
    scene_site: SceneSite, people: People
) -> None:
    page = people.tab(scene_site, "Alice", "/").page
    button, field = page.locator(".combobox-button"), page.get_by_label("Search models")
    options, groups = (
        page.locator(".combobox-list [role=option]"),
        page.locator(".combobox-list [role=group]"),
    )
    mark = page.locator("#parameters-mark")

    button.click()
    expect(field).to_be_focused()
    every = options.count()
    assert serious_findings(page, [DESKTOP_DARK]) == []
    field.fill("xerotier")
    expect(groups).to_have_count(1)
    field.fill("no such model")
    expect(options).to_have_count(0)
    expect(page.locator("#choice").get_by_text("No matches")).to_be_visible()
    field.fill("xerotier")
    first = options.nth(0).inner_text()
    second = options.nth(1).inner_text()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowDown")
    expect(field).to_have_attribute(
        "aria-activedescendant", options.nth(1).get_attribute("id") or ""
    )
    page.keyboard.press("Enter")

    assert first != second
    assert every > options.count()
    expect(button).to_be_focused()
    expect(button).to_contain_text(second)
    expect(button.locator(".combobox-group")).to_contain_text("Xerotier")
    # The parameters of the chosen server's dialect come from the server and replace those before.
    expect(page.get_by_label("Web search")).to_be_attached()
    page.get_by_label("System prompt and parameters").click()
    page.get_by_text("Advanced").click()
    expect(page.get_by_label("Web search")).to_be_visible()
    assert serious_findings(page, [DESKTOP_DARK]) == []
    expect(mark).to_be_hidden()
    page.get_by_label("Temperature").fill("0.5")
    expect(mark).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#parameters")).to_be_hidden()
    expect(page.get_by_label("System prompt and parameters")).to_be_focused()

    # Escape leaves the choice as it is.
    button.click()
    field.fill("lm studio")
    page.keyboard.press("Escape")
    expect(button).to_contain_text(second)


def test_answer_is_tried_again_with_another_model(scene_site: SceneSite, people: People) -> None:
    alice = people.tab(scene_site, "Alice", "/")
    # The server of the model that is chosen first doesn't answer.
    alice.write("Write help")
    page, dialog = alice.page, alice.page.get_by_role("dialog", name="Try again with another model")

    alice.button("Try another model").click()
    expect(dialog.get_by_label("Search models")).to_be_focused()
    assert serious_findings(page, [DESKTOP_DARK], within="#retry-with") == []
    dialog.get_by_label("Search models").fill("code")
    chosen = dialog.get_by_role("option").first.inner_text()
    page.keyboard.press("Enter")

    expect(dialog).to_be_hidden()
    expect(alice.turns.last.locator(".siblings")).to_contain_text("of 2")
    alice.shows("demo server")
    expect(page.locator("#choice .combobox-value")).to_have_text(chosen)


def test_suggestions_fit_the_chosen_server(tab: OpenTab) -> None:
    alice = tab("Alice", "/")
    suggestions = alice.page.get_by_role("list", name="Suggestions")

    expect(suggestions).to_have_attribute("data-starters", "any")
    alice.page.locator("#id_choice").evaluate(
        """select => {
          select.selectedOptions[0].dataset.demo = "";
          select.dispatchEvent(new Event("change", {bubbles: true}));
        }"""
    )

    expect(suggestions).to_have_attribute("data-starters", "demo")
