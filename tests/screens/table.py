"""The screens: a name, who is signed in, the path, and how its state is opened.

Names are those of the files, and stay the same when the interface changes.
"""

from dataclasses import dataclass

from tests.screens import states
from tests.screens.rooms import PAGES_OF_SCENES
from tests.screens.states import Opener


@dataclass(frozen=True, slots=True)
class Screen:
    name: str
    # Empty: nobody is signed in.
    who: str
    # With places as `tests.screens.stage` knows them.
    path: str
    open: Opener | None = None
    # Paths of conversations that a list has to show.
    needs: tuple[str, ...] = ()
    # What the page may answer.
    statuses: tuple[int, ...] = (200,)
    # Only what the window shows: for what lies on top of a page.
    is_window: bool = False
    # Its conversation is begun only when its turn comes: it goes on being answered, or is one of so
    # many that the lists of other screens would be full of them.
    is_late: bool = False
    # Axe's mild findings are faults, too.
    is_strict: bool = False
    # The other tabs of the page are taken as well, as ``<name>-tab2`` and so on.
    has_tabs: bool = False


def on_top(name: str, who: str, path: str, opener: Opener) -> Screen:
    """A menu, a popover, a panel or a dialog over a page."""
    return Screen(name, who, path, opener, is_window=True)


def live(name: str, who: str, path: str) -> Screen:
    return Screen(name, who, path, is_late=True, is_window=True)


QUESTIONS = ("{room[question]}", "{room[approval]}", "{room[tool-result]}")
RUNS = ("{room[text]}", "{room[error]}", "{room[tool]}")

SCREENS = (
    # --- before signing in
    Screen("sign-in", "", "/accounts/login/"),
    Screen("sign-in-refused", "", "/accounts/login/", states.refuse_sign_in),
    Screen("first-setup", "", "{link[setup]}"),
    Screen("invitation", "", "{link[invitation]}"),
    Screen("invitation-signed-in", "Charlie", "{link[invitation]}"),
    Screen("password-reset", "", "/accounts/password/reset/"),
    # --- home
    Screen("styleguide", "Ada", "/styleguide/", is_strict=True),
    Screen("styleguide-open", "Ada", "/styleguide/", states.unfold_page, is_strict=True),
    on_top("styleguide-menu", "Ada", "/styleguide/", states.open_guide_menu),
    on_top("styleguide-dialog", "Ada", "/styleguide/", states.open_guide_dialog),
    Screen("home", "Bob", "/"),
    Screen("home-administrator", "Ada", "/"),
    Screen("home-without-team", "Charlie", "/"),
    on_top("home-sidebar", "Alice", "/", states.open_sidebar),
    on_top("home-person-menu", "Ada", "/", states.open_person_menu),
    on_top("palette", "Ada", "/", states.open_palette),
    on_top("palette-results", "Alice", "/", states.open_palette_results),
    on_top("home-model-picker", "Alice", "/", states.open_model_picker),
    on_top(
        "home-parameters",
        "Alice",
        "/",
        states.in_order(states.choose_model("LM Studio", "demo-writer"), states.open_parameters),
    ),
    on_top(
        "home-parameters-xerotier",
        "Alice",
        "/",
        states.in_order(states.choose_model("Xerotier", "demo-research"), states.open_parameters),
    ),
    on_top("home-tools", "Alice", "/", states.open_tools),
    # --- answers
    Screen("answer-text", "Alice", "{room[text]}"),
    Screen("answer-to-markdown", "Alice", "{room[markdown-message]}"),
    Screen("answer-tool", "Alice", "{room[tool]}"),
    Screen("answer-tool-open", "Alice", "{room[tool]}", states.unfold_answer),
    Screen("answer-tool-failed", "Alice", "{room[tool-failed]}", states.unfold_answer),
    Screen("answer-web-search", "Alice", "{room[search]}"),
    Screen("answer-web-search-open", "Alice", "{room[search]}", states.unfold_answer),
    Screen("answer-deep-think", "Alice", "{room[deep-think]}", states.unfold_answer),
    Screen("answer-analyst", "Alice", "{room[analyst]}", states.unfold_answer),
    Screen("answer-picture", "Alice", "{room[picture]}"),
    Screen("answer-python", "Alice", "{room[python]}", states.unfold_answer),
    Screen("answer-media", "Alice", "{room[media]}"),
    Screen("answer-citations", "Alice", "{room[citations]}", states.unfold_answer),
    Screen("answer-alternatives", "Alice", "{room[alternatives]}"),
    Screen(
        "answer-log-probabilities",
        "Alice",
        "{room[log-probabilities]}",
        states.show_log_probabilities,
    ),
    Screen("answer-error", "Alice", "{room[error]}"),
    Screen("answer-error-open", "Alice", "{room[error]}", states.unfold_errors),
    Screen("answer-cut", "Alice", "{room[cut]}"),
    Screen("answer-refused", "Alice", "{room[refusal]}"),
    Screen("answer-stopped", "Alice", "{room[stopped]}"),
    Screen("answer-queued", "Alice", "{room[queued]}"),
    Screen("messages-queued", "Alice", "{room[message-queue]}", states.type_message),
    Screen("messages-on-hold", "Alice", "{room[message-queue-held]}"),
    Screen("messages-queued-viewer", "Vera", "{room[message-queue]}"),
    Screen("comments", "Alice", "{room[comments]}", states.open_comments),
    Screen("comments-viewer", "Vera", "{room[comments]}comments/?show=resolved"),
    Screen("answer-branches", "Alice", "{room[branches]}"),
    Screen("answer-edit", "Alice", "{room[branches]}", states.edit_message),
    Screen("answer-artifacts", "Alice", "{room[artifacts]}"),
    Screen("answer-mockup", "Alice", "{room[mockup]}"),
    # --- what waits for a person
    Screen("question", "Alice", "{room[question]}"),
    # As the README shows it.
    Screen("question-window", "Alice", "{room[question]}", is_window=True),
    Screen("question-two", "Alice", "{room[question-two]}"),
    Screen("question-form", "Alice", "{room[question-form]}"),
    Screen("question-viewer", "Vera", "{room[question]}"),
    Screen("approval", "Alice", "{room[approval]}"),
    Screen("tool-result", "Alice", "{room[tool-result]}"),
    Screen("call-approval", "Bob", "{link[call-approval]}", is_strict=True),
    Screen("call-approval-edit", "Bob", "{link[call-approval]}", states.unfold(".call-edit")),
    Screen("call-approval-viewer", "Vera", "{link[call-approval]}"),
    Screen("call-running", "Bob", "{link[call-running]}", is_strict=True),
    Screen("call-unknown", "Bob", "{link[call-unknown]}", is_strict=True),
    Screen("call-over", "Bob", "{link[call-over]}", is_strict=True),
    Screen("call-over-open", "Bob", "{link[call-over]}", states.unfold(".call-over")),
    Screen("call-receipt", "Bob", "{link[call-over-run]}"),
    Screen("call-private", "Alice", "{link[call-private]}"),
    Screen("call-connect", "Alice", "{link[call-connect]}", is_strict=True),
    Screen("call-connect-colleague", "Bob", "{link[call-connect]}"),
    Screen("call-input", "Alice", "{link[call-input]}", is_strict=True),
    Screen("call-input-colleague", "Bob", "{link[call-input]}"),
    Screen("call-input-address", "Alice", "{link[call-input-address]}", is_strict=True),
    Screen("call-ended", "Alice", "{link[call-ended]}", is_strict=True),
    Screen("call-ended-open", "Alice", "{link[call-ended]}", states.unfold(".call-over")),
    Screen("call-ended-colleague", "Bob", "{link[call-ended]}", states.unfold(".call-over")),
    # --- the conversation around them
    on_top("conversation-menu", "Alice", "{room[text]}", states.open_room_menu),
    on_top("conversation-menu-viewer", "Vera", "{room[text]}", states.open_room_menu),
    Screen("conversation-exported", "Alice", "{room[artifacts]}", states.open_exported_file),
    Screen("conversation-printed", "Alice", "{room[question]}print/"),
    on_top("conversation-delete", "Alice", "{room[text]}", states.ask_to_delete),
    on_top("conversation-find", "Alice", "{room[text]}", states.find_in_conversation),
    on_top("conversation-people", "Alice", "{room[text]}", states.open_sharing),
    on_top("conversation-participants", "Alice", "{link[participants]}", states.open_sharing),
    Screen("conversation-people-page", "Bob", "{link[participants]}people/"),
    Screen("conversation-present", "Alice", "{link[present]}"),
    on_top("conversation-present-list", "Alice", "{link[present]}", states.open_present_people),
    on_top("conversation-private", "Alice", "{room[private]}", states.open_sharing),
    on_top("conversation-details", "Alice", "{room[tool]}", states.open_details_panel),
    on_top("conversation-files", "Alice", "{room[artifacts]}", states.open_files_panel),
    on_top("conversation-artifact", "Alice", "{room[artifacts]}", states.open_artifact_panel),
    on_top("conversation-mockup", "Alice", "{room[mockup]}", states.open_mockup_panel),
    on_top(
        "conversation-parameters",
        "Alice",
        "{room[log-probabilities]}",
        states.open_parameters,
    ),
    Screen("conversation-colleague", "Bob", "{room[text]}"),
    Screen("conversation-viewer", "Vera", "{room[text]}"),
    Screen("conversation-read-only", "Bob", "{link[read_only]}", states.open_changes),
    Screen("conversation-forked", "Bob", "{link[forked]}"),
    on_top("conversation-settings", "Alice", "{link[read_only]}", states.show_settings),
    Screen("conversation-imported", "Alice", "{link[imported]}", states.unfold_answer),
    on_top("keyboard-help", "Alice", "{room[text]}", states.open_key_help),
    # --- pages about it
    Screen("artifact", "Alice", "{link[artifact]}", has_tabs=True),
    Screen("artifact-html", "Alice", "{link[artifact-html]}"),
    Screen("mockup", "Alice", "{link[mockup]}", has_tabs=True),
    Screen("files-attached", "Alice", "{link[files-draft]}"),
    Screen("files-too-long", "Alice", "{link[files-too-long]}"),
    on_top("files-opened", "Alice", "{link[files-too-long]}", states.open_attached_file),
    on_top("files-wrong-pages", "Alice", "{link[files-too-long]}", states.type_wrong_pages),
    on_top("files-uploading", "Alice", "{link[files-draft]}", states.upload_slowly),
    Screen("files-list", "Alice", "{link[files-draft]}files/"),
    Screen("files", "Alice", "{room[artifacts]}files/"),
    Screen("files-pictures", "Alice", "{room[picture]}files/"),
    Screen("run-details", "Alice", "{run[tool]}details/", has_tabs=True),
    Screen("run-details-error", "Alice", "{run[error]}details/", has_tabs=True),
    Screen("run-details-event", "Alice", "{run[tool]}details/?tab=events", states.open_event),
    Screen("run-details-raw", "Alice", "{run[tool]}details/?tab=recording"),
    Screen("run-replay", "Alice", "{run[tool]}replay/?at=12"),
    # --- lists
    Screen("search", "Alice", "/c/search/?q=river"),
    Screen("search-start", "Alice", "/c/search/"),
    Screen("search-filtered", "Alice", "/c/search/?q=river+from%3Aalice+has%3Afile+before%3Asoon"),
    Screen("search-empty", "Alice", "/c/search/?q=glacier"),
    on_top("sidebar-pinned", "Bob", "/", states.open_sidebar),
    on_top("sidebar-line-menu", "Bob", "/", states.open_line_menu),
    Screen("conversations", "Bob", "/conversations/", states.select_all),
    Screen("conversations-archived", "Bob", "/conversations/archived/"),
    Screen("conversations-archived-empty", "Vera", "/conversations/archived/"),
    Screen("conversations-trash", "Bob", "/conversations/trash/"),
    Screen("conversations-trash-empty", "Vera", "/conversations/trash/"),
    Screen("conversation-temporary", "Bob", "{link[temporary]}"),
    on_top("sidebar-projects", "Alice", "/", states.open_project_of_sidebar),
    Screen("projects", "Alice", "/projects/"),
    Screen("projects-empty", "Charlie", "/projects/"),
    Screen("project-new", "Alice", "/projects/new/"),
    Screen("project", "Alice", "{link[project]}", has_tabs=True),
    Screen("project-viewer", "Vera", "{link[project]}instructions/"),
    Screen("project-empty", "Bob", "{link[project-empty]}"),
    Screen("project-members", "Alice", "{link[project-members]}members/"),
    Screen("project-settings", "Alice", "{link[project]}settings/", has_tabs=True),
    on_top("project-access-question", "Alice", "{link[project]}settings/", states.limit_project),
    on_top(
        "project-member-question",
        "Alice",
        "{link[project-members]}members/",
        states.ask_to_remove_member,
    ),
    Screen("project-conversation", "Alice", "{link[project-room]}"),
    on_top("project-move", "Alice", "{link[project-room]}", states.choose_project),
    on_top("project-move-question", "Alice", "{link[project-room]}", states.ask_to_move),
    # Last of these, because it changes the others.
    on_top("undo", "Bob", "/", states.archive_from_the_sidebar),
    on_top("search-hit", "Alice", "/c/search/?q=hours", states.open_hit),
    Screen("inbox", "Alice", "/inbox/", needs=QUESTIONS, has_tabs=True),
    Screen("inbox-open", "Alice", "/inbox/", states.open_inbox_line, needs=QUESTIONS),
    Screen("inbox-empty", "Vera", "/inbox/"),
    # Behind the inbox, which lists the mention until it is read.
    on_top("conversation-mention", "Alice", "{link[mention]}", states.mention_somebody),
    # --- people and settings
    Screen("people", "Alice", "/people/", has_tabs=True),
    Screen("people-member", "Bob", "/people/"),
    Screen("people-administrator", "Ada", "/people/"),
    on_top("people-menu", "Alice", "/people/", states.open_person_actions),
    Screen("teams", "Ada", "/people/teams/"),
    Screen("teams-member", "Bob", "/people/teams/"),
    Screen("groups", "Alice", "{link[groups]}"),
    Screen("group", "Alice", "{link[group]}"),
    Screen("accounts", "Ada", "/people/accounts/"),
    Screen("tools-list", "Alice", "/people/tools/"),
    Screen("people-invite", "Alice", "/people/", states.open_invitation_form),
    Screen("tools", "Alice", "{link[tool]}"),
    Screen("tool-http", "Ada", "{link[http-tool]}"),
    Screen("tool-add", "Ada", "{link[add-tool]}"),
    Screen("tool-servers", "Ada", "/people/tool-servers/"),
    Screen("tool-server", "Ada", "{link[tool-server-office]}"),
    Screen("tool-server-failed", "Ada", "{link[tool-server-archive]}"),
    Screen("tool-server-add", "Ada", "{link[tool-server-add]}"),
    Screen("tool-server-settings", "Ada", "{link[tool-server-office]}settings/"),
    Screen("tool-server-groups", "Ada", "{link[tool-server-groups]}", is_strict=True),
    Screen("tool-server-client-id", "Ada", "{link[tool-server-client-id]}", states.enter_client_id),
    Screen("web-search", "Ada", "{link[web-search]}", is_strict=True),
    Screen("web-search-refused", "Ada", "{link[web-search]}", states.send_form),
    Screen("web-search-on", "Ada", "{link[web-search-on]}"),
    Screen("tool-accounts", "Alice", "/settings/connections/", is_strict=True),
    Screen("tool-accounts-empty", "Charlie", "/settings/connections/"),
    Screen("tool-sign-in", "Alice", "/settings/connections/", states.begin_tool_sign_in),
    Screen("settings", "Alice", "/settings/"),
    Screen("password-change", "Alice", "/accounts/password/change/"),
    Screen("presets", "Alice", "/presets/", is_strict=True),
    Screen("presets-empty", "Charlie", "/presets/"),
    Screen("preset-new", "Alice", "/presets/new/"),
    Screen("preset", "Alice", "{link[preset]}", is_strict=True),
    Screen("preset-lost", "Alice", "{link[preset-lost]}"),
    Screen("preset-viewer", "Vera", "{link[preset]}"),
    Screen("preset-versions", "Alice", "{link[preset]}versions/", is_strict=True),
    Screen("preset-home", "Alice", "{link[home-preset]}"),
    Screen("preset-home-lost", "Alice", "{link[home-preset-lost]}"),
    on_top("preset-picker", "Alice", "/", states.open_models),
    on_top("preset-panel", "Alice", "{link[home-preset]}", states.save_preset),
    Screen("prompts", "Alice", "/prompts/", is_strict=True),
    Screen("prompts-empty", "Charlie", "/prompts/"),
    Screen("prompt-new", "Alice", "/prompts/new/"),
    Screen("prompt", "Alice", "{link[prompt]}", is_strict=True),
    Screen("prompt-viewer", "Vera", "{link[prompt]}"),
    Screen("prompt-versions", "Alice", "{link[prompt]}versions/", is_strict=True),
    on_top("prompt-find", "Alice", "/", states.find_prompt),
    on_top("prompt-values", "Alice", "/", states.fill_in_prompt),
    Screen("tokens", "Alice", "/settings/tokens/"),
    Screen("tokens-empty", "Bob", "/settings/tokens/"),
    Screen("exports-and-imports-empty", "Vera", "/settings/data/"),
    Screen("exports-and-imports", "Alice", "/settings/data/", states.export_and_check_import),
    Screen("exports-and-imports-done", "Bob", "/settings/data/", states.import_conversations),
    Screen("streaming-test", "Alice", "/settings/streaming/"),
    Screen("titles", "Ada", "/settings/titles/"),
    Screen("mail-not-set-up", "Ada", "/settings/mail/"),
    Screen("servers", "Ada", "/settings/servers/"),
    Screen("server", "Ada", "{link[server-tested]}", has_tabs=True),
    Screen("server-failed-test", "Ada", "{link[server-broken]}", has_tabs=True),
    Screen("server-draining", "Ada", "{link[server-draining]}"),
    Screen("server-xerotier", "Ada", "{link[server-xerotier]}settings/"),
    Screen("server-off", "Ada", "{link[server-off]}"),
    Screen("server-models", "Ada", "{link[server-off]}models/"),
    Screen("server-models-found", "Ada", "{link[server-off]}models/?q=code"),
    Screen("server-delete", "Ada", "{link[server-off]}delete/"),
    Screen("server-kinds", "Ada", "/settings/servers/add/"),
    Screen("server-add", "Ada", "/settings/servers/add/?kind=lm-studio"),
    Screen(
        "server-add-refused",
        "Ada",
        "/settings/servers/add/?kind=other",
        states.send_empty_server_form,
    ),
    Screen(
        "server-add-failed", "Ada", "/settings/servers/add/?kind=ollama", states.test_new_server
    ),
    # --- refusals
    Screen("error-403", "Vera", "/m/{question[text]}/edit/", statuses=(403,)),
    Screen("error-404", "Alice", "/no/such/page/", statuses=(404,)),
    Screen("error-administrators-only", "Bob", "/settings/servers/", statuses=(403,)),
    # --- administration
    Screen("admin", "Ada", "/admin/"),
    Screen("admin-users", "Ada", "/admin/chat/user/"),
    Screen("admin-user", "Ada", "/admin/chat/user/{row[chat_user]}/change/"),
    Screen("admin-teams", "Ada", "/admin/chat/team/"),
    Screen("admin-servers", "Ada", "/admin/chat/upstream/"),
    Screen("admin-server", "Ada", "/admin/chat/upstream/{row[chat_upstream]}/change/"),
    Screen("admin-runs", "Ada", "/admin/chat/run/", needs=RUNS),
    Screen("admin-run", "Ada", "/admin/chat/run/{run_key[tool]}/change/"),
    Screen("admin-conversations", "Ada", "/admin/chat/conversation/"),
    Screen("admin-reason", "Ada", "/admin/chat/conversation/{room_key[private]}/change/"),
    Screen("admin-reason-search", "Ada", "/admin/chat/conversation/?q=river+levels"),
    Screen("admin-conversation", "Ada", "/admin/chat/conversation/{room_key[text]}/change/"),
    Screen(
        "admin-conversation-opened",
        "Ada",
        "/admin/chat/conversation/{room_key[private]}/change/",
        states.give_reason,
    ),
    Screen("conversation-opened", "Alice", "{room[private]}"),
    Screen("exports-and-imports-all", "Ada", "/settings/data/", states.export_everything),
    Screen("exports-and-imports-told", "Vera", "/settings/data/"),
    Screen("admin-tokens", "Ada", "/admin/chat/accesstoken/"),
    Screen("admin-audit", "Ada", "/admin/chat/auditevent/"),
    Screen("admin-audit-event", "Ada", "/admin/chat/auditevent/{row[chat_auditevent]}/change/"),
    # --- while an answer is written; last, because these runs go on until the end
    live("live-waiting", "Alice", "{room[waiting]}"),
    live("live-thinking", "Alice", "{room[thinking]}"),
    live("live-growing", "Alice", "{room[growing]}"),
    live("live-growing-author", "Bob", "{room[growing]}"),
    # --- what the demo's servers can answer
    *(
        Screen(name, "Alice", f"{{room[{name}]}}", states.unfold_answer, is_late=True)
        for name in PAGES_OF_SCENES
    ),
)
