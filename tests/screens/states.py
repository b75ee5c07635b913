"""Opens a state of a page: a menu, a popover, a panel, a dialog.

Selectors name ids, roles, addresses and form fields rather than texts, and where an interface may
do the same in several ways they are tried in order: the pictures before and after a change of the
interface are taken by the same code.
"""

import base64
import contextlib
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from uuid import uuid4

from playwright.sync_api import Error as PlaywrightError
from playwright.sync_api import Locator, Page

from tests.screens.identity_seed import TOTP_SECRET
from tests.support.browser.seed import PASSWORD

Opener = Callable[[Page], None]

PANEL = "#panel:not([hidden]) h2, dialog[open] h2"
MODEL = ("#composer .combobox-button", "select[name=choice]")
UNFOLD = "fold => { fold.open = true; }"
SELECT_MODEL = """(select, [server, model]) => {
  const found = [...select.options].find(option =>
    `${option.parentElement.label ?? ""} ${option.textContent}`.includes(server)
      && option.value.endsWith(model));
  return found?.value ?? "";
}"""


class Missing(Exception):
    """This state, or the page with it, is not there."""


def settle(page: Page) -> None:
    """Waits until the page has loaded what it shows; a page that polls is taken as it is."""
    with contextlib.suppress(PlaywrightError):
        page.wait_for_load_state("networkidle", timeout=4_000)
    page.evaluate("() => document.fonts.ready.then(() => true)")
    # Diagrams, formulas and highlighting come a few frames after their scripts.
    page.wait_for_timeout(200)


# --- finding --------------------------------------------------------------------------------


def first_of(page: Page, *selectors: str, is_last: bool = False) -> Locator:
    """The first visible element of the first selector that has one."""
    for selector in selectors:
        found = [each for each in page.locator(selector).all() if each.is_visible()]
        if found:
            return found[-1] if is_last else found[0]
    raise Missing(f"nothing visible is {' or '.join(selectors)}")


def any_of(page: Page, *selectors: str) -> Locator:
    """The first element of the first selector that has one, visible or not."""
    for selector in selectors:
        if page.locator(selector).count():
            return page.locator(selector).first
    raise Missing(f"nothing is {' or '.join(selectors)}")


# --- kinds of openers -------------------------------------------------------------------------


def in_order(*openers: Opener) -> Opener:
    def open_(page: Page) -> None:
        for opener in openers:
            opener(page)
            settle(page)

    return open_


def either(first: Opener, second: Opener) -> Opener:
    """The second way where the first is not there."""

    def open_(page: Page) -> None:
        try:
            first(page)
        except Missing:
            second(page)

    return open_


def press(*selectors: str, then: str = "", is_last: bool = False) -> Opener:
    """Clicks the first of these that is visible, and waits for what ``then`` names."""

    def open_(page: Page) -> None:
        first_of(page, *selectors, is_last=is_last).click()
        if then:
            page.locator(then).first.wait_for()

    return open_


def follow(*selectors: str, then: str = "") -> Opener:
    """Clicks the first of these even where it is folded away or covered, as a script would."""

    def open_(page: Page) -> None:
        any_of(page, *selectors).evaluate("link => link.click()")
        if then:
            page.locator(then).first.wait_for()

    return open_


def unfold(*selectors: str) -> Opener:
    """Opens all folds of the first selector that has any."""

    def open_(page: Page) -> None:
        found = next((each for each in selectors if page.locator(each).count()), "")
        if not found:
            raise Missing(f"nothing is {' or '.join(selectors)}")
        for fold in page.locator(found).all():
            fold.evaluate(UNFOLD)

    return open_


def fill(value: str, *selectors: str) -> Opener:
    def open_(page: Page) -> None:
        first_of(page, *selectors).fill(value)

    return open_


def choose_model(server: str, model: str) -> Opener:
    """Picks a model in the composer, in a select or in a combobox with a list."""

    def open_(page: Page) -> None:
        picker = first_of(page, *MODEL)
        if picker.evaluate("element => element.localName") == "select":
            value = picker.evaluate(SELECT_MODEL, [server, model])
            if not value:
                raise Missing(f"the picker has no {model} of {server}")
            picker.select_option(value)
            return
        picker.click()
        # Where a touch brings up a keyboard, opening the list does not focus its search field.
        page.locator("[role=combobox]:visible").fill(server)
        first_of(page, f"[role=option][data-value$='{model}']").click()

    return open_


# --- states ---------------------------------------------------------------------------------


def open_sidebar(page: Page) -> None:
    """On a narrow window the sidebar is a drawer; on a wide one it is there."""
    opener = page.locator("[popovertarget=sidebar]:not([popovertargetaction=hide])").first
    if opener.count() and opener.is_visible():
        opener.click()


def open_model_picker(page: Page) -> None:
    """The list of a select is drawn by the system, and no screenshot shows it."""
    picker = first_of(page, *MODEL)
    if picker.evaluate("element => element.localName") == "select":
        picker.focus()
    else:
        picker.click()
        page.locator("[role=listbox], [role=option]").first.wait_for()


open_parameters = press(
    "#composer details:has([name=system_prompt]) > summary",
    "#parameters-open",
    "#composer [popovertarget*=parameters], #composer [aria-controls*=parameters]",
    "#composer [popovertarget*=options], #composer [aria-controls*=options]",
    "#composer [aria-label*=arameters]",
)
open_tools = press("#tools-slot summary", "#tools-slot button", "#composer [aria-controls*=tools]")
open_person_menu = in_order(
    open_sidebar,
    press(".person > summary", "#sidebar [aria-haspopup=menu]", "#sidebar .menu > summary"),
)


def open_exported_file(page: Page) -> None:
    """What *Export* → *HTML* saves."""
    address = any_of(page, "a[href$='/export/html/']").get_attribute("href")
    text = page.request.get(f"{page.url.split('/c/')[0]}{address}").text()
    # The policy of our pages forbids the styles of a file.
    page.goto("about:blank")
    page.set_content(text)


open_line_menu = in_order(
    open_sidebar,
    press("[data-pinned] .line-more", then="#line-menu:popover-open"),
)
archive_from_the_sidebar = in_order(
    open_line_menu, press("#line-menu form[action$='/archive/'] button", then="#toasts .undo")
)
open_project_of_sidebar = in_order(
    open_sidebar, press("#conversations [data-project] > summary", then="#conversations [open] li")
)
select_all = press("[data-choose-all]")


def open_palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    first_of(page, "#palette [role=combobox]")


open_palette_results = in_order(open_palette, fill("river", "#palette [role=combobox]"))
open_room_menu = press(
    ".room-menu > summary",
    "#room-head .menu > summary",
    "#room-head [aria-haspopup=menu]",
    "#room-head [popovertarget]",
)
ask_to_delete = in_order(
    open_room_menu, press("#room-head form[action$='/delete/'] button", then="dialog[open]")
)
choose_project = in_order(
    open_room_menu, press("#room-head [data-move]", then="#move[open] .menu-item")
)
ask_to_move = in_order(
    choose_project, press("#move [name=project][value=none]", then="#move .move-effect")
)
limit_project = in_order(
    press("[name=access][value=members]"),
    press(".project-form .button-primary", then="#access-question[open] .move-effect"),
)
ask_to_remove_member = press(".person-row [name=remove] ~ button", then="#access-question[open]")
find_in_conversation = in_order(
    follow("#to-find", then=PANEL), fill("level", "[data-find-here] input")
)
open_hit = press(".hit[data-kind=answer] a", then="#turns")
open_comments = follow("#to-comments", then=PANEL)
begin_comparison = press("#compare-open", then="#compare-row [role=option]")
open_feedback = follow("#turns .feedback-line", then="#feedback-list")
rate_answer = press("#turns [data-thumb][value='-1']", then="#rating .feedback-form")
open_context = follow("#gauge", then=PANEL)
open_sharing = follow("#to-people", "#room-head a[href$='/people/']", then="#share[open]")
open_present_people = press(".presence-people", then=".presence-list")
open_details_panel = follow("#turns [data-details]", "#turns a[href$='/details/']", then=PANEL)
open_files_panel = follow("#to-files", "#room-head a[href$='/files/']", then=PANEL)
open_artifact_panel = either(
    follow("#turns a[href^='/a/']", then=PANEL),
    in_order(open_files_panel, follow("#panel a[href^='/a/']", then=PANEL)),
)
open_mockup_panel = either(
    follow("#turns a[href^='/k/']", then=PANEL),
    in_order(open_files_panel, follow("#panel a[href^='/k/']", then=PANEL)),
)
edit_message = follow("#turns a[href$='/edit/']", then="#turns textarea")
show_log_probabilities = unfold("details.likely", "#turns details:has(.heat)", "details.logprobs")
unfold_answer = unfold("#turns .answer details")
unfold_page = unfold("main details:not(.menu)")
open_guide_menu = press("#menus .menu > summary")
open_guide_dialog = press(
    "main [commandfor=guide-dialog]", "main button:has-text('Open the dialog')"
)
unfold_errors = unfold("#turns .answer details, #turns .note details, #turns .notice details")
open_event = press("#recorder li > details > summary", "main li[id^=e] summary")
open_inbox_line = press(".inbox-line > summary")
open_person_actions = press("main tbody .menu > summary")


def invite_many(page: Page) -> None:
    fill("12", "[name=people]")(page)
    press("main form .button-primary", then="#secret")(page)


def invite_by_mail(page: Page) -> None:
    mark = uuid4().hex[:4]
    fill(f"mia-{mark}@example.org, noah-{mark}@example.org", "[name=emails]")(page)
    press("main form .button-primary", then="main li")(page)


open_invitation_menu = press("main tbody .menu > summary")
try_provider = press("form[action*='/trial/'] .button", then="main dl.pairs dd .badge")


def invite_two(page: Page) -> None:
    """Each time two others, because nobody is invited twice."""
    mark = uuid4().hex[:4]
    fill(f"ina-{mark}@example.org, jo-{mark}@example.org", "[name=emails]")(page)
    press("main form .button-primary", then="#link-2")(page)


open_invitation_form = follow("main a[href*=invite]", then="main form.form")
begin_tool_sign_in = press("main form[action*='connect'] .button", then="main a[rel=noreferrer]")
enter_client_id = press("main form[action$='/client/'] .button", then="main [name=client_id]")
test_provider = press("form[action*='/test/'] .button", then="#test .step")
send_form = press("main form.form .button-primary", then="main .field-error")
open_key_help = follow("[data-keys]", then="dialog[open]")


# --- signing in -------------------------------------------------------------------------------


def confirm_password(page: Page) -> None:
    """The page that adds a factor, behind the one that asks for the password the first time."""
    if page.locator("[name=password]").count():
        page.locator("[name=password]").fill(PASSWORD)
        page.get_by_role("button", name="Continue").click()
    page.locator(".qr, form[data-passkey]").first.wait_for()


def confirm_code(page: Page) -> None:
    """The page that was asked for, behind the one that asks for a code the first time."""
    asks = page.locator("main [name=code]")
    if asks.count():
        asks.fill(app_code(TOTP_SECRET))
        page.get_by_role("button", name="Continue").click()
        asks.wait_for(state="detached")


def app_code(secret: str) -> str:
    """What an authenticator app shows now (RFC 6238)."""
    counter = int(time.time() // 30).to_bytes(8, "big")
    digest = hmac.digest(base64.b32decode(secret), counter, hashlib.sha1)
    at = digest[-1] & 15
    return f"{(int.from_bytes(digest[at : at + 4], 'big') & 0x7FFFFFFF) % 10**6:06}"


def sign_in_as(name: str) -> Opener:
    """The second step of signing in."""

    def open_(page: Page) -> None:
        # The sign-in of the picture before may be under way.
        page.context.clear_cookies()
        page.reload()
        fill_sign_in(page, f"{name.lower()}@example.org", PASSWORD)
        # Passwords are hashed slowly.
        page.locator("main [name=code]").wait_for(timeout=30_000)

    return open_


def fill_sign_in(page: Page, email: str, password: str) -> None:
    page.locator("[name=login]").fill(email)
    page.locator("[name=password]").fill(password)
    page.locator("form:has([name=password]) button").last.click()


def refuse_sign_in(page: Page) -> None:
    fill_sign_in(page, "alice@example.org", "not the password")
    page.locator("main .notice").wait_for(timeout=30_000)


def send_wrong_code(page: Page) -> None:
    page.locator("main [name=code]").fill("000000")
    page.locator("form:has([name=code]) button").last.click()
    page.locator("main .field-error:visible").first.wait_for()


def send_short_password(page: Page) -> None:
    for name in ("password1", "password2"):
        page.locator(f"[name={name}]").fill("short")
    page.locator("main form button").last.click()
    page.locator("main .field-error").first.wait_for()


def send_reset_form(page: Page) -> None:
    page.locator("[name=email]").fill("nobody@example.org")
    page.locator("main form button").last.click()
    page.wait_for_url("**/reset/done/")


def leave_for_provider(page: Page) -> None:
    """The page goes on by itself, which is refused here."""
    page.route("**/authorize?*", lambda route: route.fulfill(status=204))
    page.locator("form[action*='/provider/waterworks/'] button").click()
    page.locator("main a[rel=noreferrer]").wait_for()


make_reset_link = follow("form[action$='/reset-link/'] button", then="#secret")
send_test_message = press("#test-message .button", then="#notices .notice, #toasts > *")


def send_wrong_provider(page: Page) -> None:
    page.locator("[name=name]").fill("Keycloak")
    page.locator("[name=issuer]").fill("login.example.org")
    page.locator("main form .button-primary").click()
    page.locator("main .field-error").first.wait_for()


def send_empty_rule(page: Page) -> None:
    page.locator("#groups .form-actions button").click()
    page.locator("#groups .field-error").first.wait_for()


def test_new_server(page: Page) -> None:
    """Nothing listens at the address, so the test fails and the form stays."""
    page.locator("[name=base_url]").fill("http://127.0.0.1:9/v1")
    page.locator("#settings .button-primary").click()
    page.locator("#id_base_url_error").wait_for()


def send_empty_server_form(page: Page) -> None:
    """Shows how a form says what is wrong with it."""
    page.locator("form:has([name=base_url])").evaluate("form => { form.noValidate = true; }")
    page.locator("form:has([name=base_url]) .form-actions button").last.click()


# --- exports and imports --------------------------------------------------------------------------

SAID = {"author": {"role": "user"}, "content": {"content_type": "text", "parts": ["Which river?"]}}
MAPPING = {"a": {"id": "a", "message": {"id": "a", **SAID}, "parent": None}}
NOT_UNDERSTOOD = {"id": "c-9", "title": "Without messages"}


def upload_conversations(page: Page) -> None:
    """Until the report is there. They are others each time, so that none was imported before."""
    known = {"mapping": MAPPING, "current_node": "a"}
    found = [{"id": uuid4().hex, "title": f"Rivers {each}", **known} for each in (1, 2, 3)]
    body = json.dumps([*found, NOT_UNDERSTOOD]).encode()
    file = {"name": "conversations.json", "mimeType": "application/json", "buffer": body}
    page.locator("#import-file").set_input_files(file)
    with page.expect_event("load"):
        page.locator("form[data-upload] .button-primary").click()
    page.locator("#imports .job:first-child .job-figures").wait_for()


def export_and_check_import(page: Page) -> None:
    page.locator("form[action$='/export/'] .button-primary").click()
    page.locator(".job a[download]").first.wait_for()
    upload_conversations(page)
    page.locator(".job-notes").first.evaluate(UNFOLD)


def import_conversations(page: Page) -> None:
    upload_conversations(page)
    page.locator("form[action$='/confirm/'] .button").first.click()
    page.locator("#imports .job:first-child .job-good").wait_for()


# --- administration ---------------------------------------------------------------------------


def give_reason(page: Page) -> None:
    """Opens what an administrator is asked a reason for, if they are asked."""
    if not page.locator("main [name=reason]").count():
        return
    page.fill("main [name=reason]", "Report 12 of the ombudsman: threats against a colleague")
    page.press("main [name=reason]", "Enter")
    page.wait_for_selector("main .transcript")


def export_everything(page: Page) -> None:
    page.select_option("[name=what]", "all")
    page.fill("[name=reason]", "Move to the new data center")
    page.press("[name=reason]", "Enter")
    page.wait_for_selector("#administrator-exports")


def fill_context(page: Page) -> None:
    """More than a small model can read: the note above the composer."""
    choose_model("Workstation", "small")(page)
    first_of(page, "#text").fill("How high was the water? " * 2000)
    page.locator("#context-note .row").wait_for()


def type_message(page: Page) -> None:
    """Words in the composer, so that it has the button that sends them."""
    first_of(page, "#text").fill("And what can be eaten?")


def scroll_to_settings(page: Page) -> None:
    page.locator("select[name=shown]").scroll_into_view_if_needed()


open_sent_file = press(".attached .attachment-open", then="#panel .kept-facts")
_HAND_OVER = """([type, text]) => {
  const transfer = new DataTransfer();
  if (text) transfer.setData("text/plain", text);
  else transfer.items.add(new File(["x"], "dropped.txt", {type: "text/plain"}));
  const options = {bubbles: true, cancelable: true};
  document.getElementById("text").dispatchEvent(type === "paste"
    ? new ClipboardEvent(type, {...options, clipboardData: transfer})
    : new DragEvent(type, {...options, dataTransfer: transfer}));
}"""


def paste_long_text(page: Page) -> None:
    page.evaluate(_HAND_OVER, ["paste", "The level rose during the night.\n" * 200])
    page.wait_for_selector("#attach-pasted:not([hidden])")


def drag_file(page: Page) -> None:
    page.evaluate(_HAND_OVER, ["dragover", ""])
    page.wait_for_selector("#composer.is-dropping")


open_attached_file = press(".attaching [data-open-file]", then="#attached-file[open]")


def type_wrong_pages(page: Page) -> None:
    open_attached_file(page)
    page.fill("#attached-pages", "40-60")
    page.wait_for_selector("#attached-text .attach-refused")


def upload_slowly(page: Page) -> None:
    """Uploads of which one does not end, and one was refused."""
    page.route(
        "**/unsent/*/",
        lambda route: (
            None if b"gauges.xlsx" in (route.request.post_data_buffer or b"") else route.continue_()
        ),
    )
    page.set_input_files(
        "#attach-input",
        [{"name": "gauges.xlsx", "mimeType": "application/x-sheet", "buffer": b"x" * 4096}],
    )
    page.wait_for_selector("[data-uploading]")
    page.set_input_files(
        "#attach-input",
        [{"name": "program.bin", "mimeType": "application/x-program", "buffer": bytes(64)}],
    )
    page.wait_for_selector(".attachment-refused [data-cancel]")


show_settings = in_order(open_sharing, scroll_to_settings)
open_changes = press(".room-changes > summary", then=".room-changes[open]")


def mention_somebody(page: Page) -> None:
    """The list that completes a name."""
    first_of(page, "#text").press_sequentially("Ask @")
    page.wait_for_selector("[id^=mention-list-] [role=option]")


def find_prompt(page: Page) -> None:
    """The list of prompts."""
    first_of(page, "#text").fill("")
    first_of(page, "#text").press_sequentially("/")
    page.wait_for_selector("[id^=prompt-list-] [role=option]")


def fill_in_prompt(page: Page) -> None:
    """The dialog for the values of a prompt."""
    find_prompt(page)
    page.get_by_role("option", name="Letter to a visitor").click()
    page.wait_for_selector("#prompt-dialog[open] form")


def open_reading(page: Page) -> None:
    """The reading settings over a conversation."""
    first_of(page, ".room-menu > summary").click()
    first_of(page, "a[data-reading]").click()
    page.get_by_label("Large", exact=True).check()
    page.wait_for_selector("html[data-reading]")


def select_passage(page: Page) -> None:
    """A passage of an answer, with what can be done with it."""
    paragraph = page.locator("#turns .item.message p").first
    paragraph.scroll_into_view_if_needed()
    paragraph.evaluate("each => document.getSelection().selectAllChildren(each)")
    page.wait_for_selector("#selection-tools:not([hidden])")


def open_models(page: Page) -> None:
    """The list of presets and models."""
    first_of(page, "#composer .combobox-button").click()
    page.wait_for_selector("#composer [role=option]")


def save_preset(page: Page) -> None:
    """The panel with the settings of answers, in which they are saved as a preset."""
    page.locator("#preset-name").click()
    page.get_by_label("Temperature").fill("1.1")
    page.locator("[data-open-save]").click()
    page.wait_for_selector("[data-save-preset=new]")
