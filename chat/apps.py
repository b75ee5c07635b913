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
        from chat.conversations.page_parts import use_cards, use_enqueue, use_feedback
        from chat.documents.purge import PURGE_DOCUMENTS
        from chat.feedback.lines import read_lines
        from chat.files.answer_files import STORE_OUTPUT_FILES
        from chat.files.purge import PURGE_FILES
        from chat.files.unsent import PURGE_UNSENT
        from chat.jobs.worker import JOBS, PURGE_JOBS, READ_DOCUMENTS
        from chat.live.posts import use_respond
        from chat.message_queue.actions import enqueue
        from chat.message_queue.tasks import SEND_AFTER_ANSWER, SEND_LATE, SEND_QUEUED
        from chat.organization.purge import PURGE
        from chat.presence.purge import PURGE_PRESENCE
        from chat.questions.asking import ASK_PEOPLE
        from chat.questions.card_reading import cards_by_run
        from chat.rendering.icons import use_sprite
        from chat.runs.admission import LIMIT_PER_PERSON, use_admission_checks
        from chat.runs.allowed_models import ALLOWED_MODELS
        from chat.runs.ended_runs import FOLLOW_ENDED_RUNS, FOLLOWED
        from chat.runs.outcomes import CONTINUE_PAUSED, use_ending_rows, use_steps
        from chat.runs.runner import add_rare_work, register_periodic_task
        from chat.search.sources import INDEX_ANSWER, INDEX_MORE
        from chat.servers.list_refresh import REFRESH_LISTS
        from chat.titles.queueing import QUEUE_TITLE
        from chat.titles.writer import WRITE_TITLES
        from chat.tools.outcome import RUN_TOOLS
        from chat.tools.recordings import PURGE_RECORDINGS
        from chat.tools.runner import RUN_CALLS
        from chat.tools.server_tests import TEST_SERVERS
        from chat.web.posts import respond_with

        use_steps(
            *(
                ASK_PEOPLE,
                RUN_TOOLS,
                STORE_ARTIFACTS,
                STORE_MOCKUPS,
                CONTINUE_PAUSED,
                STORE_OUTPUT_FILES,
            ),
            INDEX_MORE,
        )
        use_ending_rows(INDEX_ANSWER, FOLLOWED, QUEUE_TITLE)
        use_admission_checks(LIMIT_PER_PERSON, ALLOWED_MODELS)
        for task in (
            *(FETCH_FILES, PURGE, JOBS, PURGE_JOBS, PURGE_FILES, FOLLOW_ENDED_RUNS, WRITE_TITLES),
            *(SEND_QUEUED, SEND_AFTER_ANSWER, SEND_LATE, PURGE_PRESENCE, RUN_CALLS, TEST_SERVERS),
            *(PURGE_RECORDINGS, PURGE_DOCUMENTS, *READ_DOCUMENTS, PURGE_UNSENT),
        ):
            register_periodic_task(task)
        # Nobody waits for what it purges.
        add_rare_work(PURGE_RECORDINGS, REFRESH_LISTS)
        _register_job_kinds()
        _register_tools_and_files()
        use_cards(cards_by_run)
        use_feedback(read_lines)
        use_enqueue(enqueue)
        # Composer, edits, new answers and stops.
        use_respond(
            respond_with(
                *("conversation_new", "conversation_send", "message_edit", "message_retry"),
                "run_stop",
            )
        )
        _register_live_channels()
        _register_inbox_sources()
        use_sprite(lambda: static("icons.svg"))
        _follow_sign_ins()


def _follow_sign_ins() -> None:
    from allauth.mfa.models import Authenticator
    from django.contrib.auth.signals import user_logged_in, user_logged_out
    from django.db.models.signals import post_delete, post_save

    from chat.accounts.two_step.flag import note_factors
    from chat.web.session_use import note_sign_in, note_sign_out

    user_logged_in.connect(note_sign_in, dispatch_uid="sessions")
    user_logged_out.connect(note_sign_out, dispatch_uid="sessions")
    for signal in (post_save, post_delete):
        signal.connect(note_factors, sender=Authenticator, dispatch_uid="second_factors")


def _register_job_kinds() -> None:
    from chat.documents import reading as document_reading
    from chat.exports.zip_job import make_zip
    from chat.imports import jobs as import_jobs
    from chat.jobs.kinds import register_kind
    from chat.models import JobKind

    register_kind(JobKind.EXPORT, make_zip)
    register_kind(JobKind.CHECK, import_jobs.check)
    register_kind(JobKind.IMPORT, import_jobs.run_import)
    register_kind(JobKind.UNDO, import_jobs.run_undo)
    register_kind(JobKind.READ, document_reading.read_document, on_failure=document_reading.refuse)


def _register_tools_and_files() -> None:
    from chat.documents.parts import build_parts
    from chat.questions.input_actions import use_refusal_check
    from chat.runs.file_parts import use_file_parts
    from chat.tools.call_rows import why_refused_now
    from chat.tools.executors import CANCELERS, EXECUTORS
    from chat.tools.kinds import use_executors

    use_executors(EXECUTORS, CANCELERS)
    use_refusal_check(why_refused_now)
    use_file_parts(build_parts)


def _register_live_channels() -> None:
    from chat.comments.channel import CommentsChannel
    from chat.conversations.list_channel import ListChannel
    from chat.conversations.page_channel import PageChannel
    from chat.conversations.queue_channel import QueueChannel
    from chat.drafts.channel import DraftChannel
    from chat.inbox.channel import InboxChannel
    from chat.live.channels import register_channels
    from chat.message_queue.channel import MessageQueueChannel
    from chat.presence.channel import PresenceChannel
    from chat.presence.list_channel import ListPresenceChannel
    from chat.unread.channel import UnreadChannel

    register_channels(PageChannel, ListChannel, QueueChannel, MessageQueueChannel)
    register_channels(PresenceChannel, ListPresenceChannel, UnreadChannel, DraftChannel)
    register_channels(InboxChannel, CommentsChannel)


def _register_inbox_sources() -> None:
    from chat.comments.inbox_source import COMMENTS
    from chat.inbox.answers import ANSWERS
    from chat.mentions.inbox_source import MENTIONS
    from chat.participants.inbox_source import SHARES
    from chat.questions.inbox_source import CALLS, QUESTIONS
    from chat.web.inbox_sources import use_inbox_sources

    use_inbox_sources(QUESTIONS, CALLS, MENTIONS, COMMENTS, ANSWERS, SHARES)


class AdminConfig(SimpleAdminConfig):
    """The administration without autodiscovery: the site lists its records, and those of other
    applications (mail addresses, permission groups) have no meaning here."""

    default_site = "chat.administration.site.TributaryAdminSite"
