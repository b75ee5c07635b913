"""Django's entry points to the application, and the composition of engine and features."""

from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig


class ChatConfig(AppConfig):
    name = "chat"
    verbose_name = "Tributary"

    def ready(self) -> None:
        """Registers what features add to the engine and to each other's pages."""
        from django.templatetags.static import static

        from chat.artifacts.actions import STORE_ARTIFACTS, STORE_MOCKUPS
        from chat.artifacts.fetching import FETCH_FILES
        from chat.conversations.list_updates import render_lines
        from chat.conversations.page_parts import use_cards
        from chat.conversations.page_updates import render_updates
        from chat.exports.zip_job import make_zip
        from chat.files.actions import STORE_OUTPUT_FILES
        from chat.files.purge import PURGE_FILES
        from chat.imports import jobs as import_jobs
        from chat.jobs.kinds import register_kind
        from chat.jobs.worker import JOBS, PURGE_JOBS
        from chat.live.list_updates import use_line_renderer
        from chat.live.page_updates import use_renderer
        from chat.live.posts import use_respond
        from chat.models import JobKind
        from chat.organization.purge import PURGE
        from chat.questions.asking import ASK_PEOPLE
        from chat.questions.question_cards import cards_by_run
        from chat.rendering.icons import use_sprite
        from chat.runs.outcomes import CONTINUE_PAUSED, use_ending_rows, use_steps
        from chat.runs.runner import register_periodic_task
        from chat.search.sources import INDEX_ANSWER, INDEX_MORE
        from chat.web.posts import respond_with

        use_steps(
            *(ASK_PEOPLE, STORE_ARTIFACTS, STORE_MOCKUPS, CONTINUE_PAUSED, STORE_OUTPUT_FILES),
            INDEX_MORE,
        )
        use_ending_rows(INDEX_ANSWER)
        register_periodic_task(FETCH_FILES)
        register_periodic_task(PURGE)
        register_periodic_task(JOBS)
        register_periodic_task(PURGE_JOBS)
        register_periodic_task(PURGE_FILES)
        register_kind(JobKind.EXPORT, make_zip)
        register_kind(JobKind.CHECK, import_jobs.check)
        register_kind(JobKind.IMPORT, import_jobs.run_import)
        register_kind(JobKind.UNDO, import_jobs.run_undo)
        use_cards(cards_by_run)
        # Composer, edits and new answers.
        use_respond(
            respond_with("conversation_new", "conversation_send", "message_edit", "message_retry")
        )
        use_renderer(render_updates)
        use_line_renderer(render_lines)
        use_sprite(lambda: static("icons.svg"))


class AdminConfig(SimpleAdminConfig):
    """Without autodiscovery: the site lists its records, and those of other applications (mail
    addresses, permission groups) have no meaning here."""

    default_site = "chat.administration.site.TributaryAdminSite"
