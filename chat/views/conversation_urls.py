"""The addresses of the conversation page."""

from django.urls import URLPattern, path

from chat.views import (
    conversations,
    elsewhere,
    file_urls,
    frames,
    inbox,
    messages,
    readers,
    recorder,
    replay,
    runs,
    searching,
)

urlpatterns: list[URLPattern] = [
    path("", conversations.home, name="home"),
    path("inbox/", inbox.inbox, name="inbox"),
    path("c/", conversations.new, name="conversation_new"),
    path("c/list/", conversations.listing, name="conversation_list"),
    path("c/search/", searching.search, name="conversation_search"),
    path("c/<uuid:public_id>/", conversations.page, name="conversation"),
    path("c/<uuid:public_id>/changes/", conversations.changes, name="conversation_changes"),
    path("c/<uuid:public_id>/delete/", conversations.delete, name="conversation_delete"),
    path(
        "c/<uuid:public_id>/earlier/<uuid:before>/",
        conversations.earlier,
        name="conversation_earlier",
    ),
    path("c/<uuid:public_id>/people/", readers.people, name="conversation_people"),
    path("c/<uuid:public_id>/rename/", conversations.rename, name="conversation_rename"),
    path("c/<uuid:public_id>/send/", messages.send, name="conversation_send"),
    path(
        "c/<uuid:public_id>/visibility/",
        conversations.visibility,
        name="conversation_visibility",
    ),
    path("frames/diagram/", frames.diagram, name="diagram_frame"),
    path("m/<uuid:public_id>/edit/", messages.edit, name="message_edit"),
    path("m/<uuid:public_id>/retry/", messages.retry, name="message_retry"),
    path("m/<uuid:public_id>/", messages.find, name="message_find"),
    path("m/<uuid:public_id>/show/", messages.show, name="message_show"),
    path("m/<uuid:public_id>/source/", messages.source, name="message_source"),
    path("r/<uuid:public_id>/details/", runs.details, name="run_details"),
    path("r/<uuid:public_id>/part/<slug:part_id>/", runs.part, name="run_part"),
    path("r/<uuid:public_id>/text/", runs.text, name="run_text"),
    path("r/<uuid:public_id>/pictures/", elsewhere.pictures, name="run_pictures"),
    path("r/<uuid:public_id>/export/<slug:form>/", recorder.export, name="run_export"),
    path("r/<uuid:public_id>/log/", recorder.log, name="run_log"),
    path("r/<uuid:public_id>/log/<int:seq>/", recorder.event, name="run_event"),
    path("r/<uuid:public_id>/replay/", replay.page, name="run_replay"),
    path("r/<uuid:public_id>/replay/frames/", replay.frames, name="run_replay_frames"),
    path("r/<uuid:public_id>/replay/moment/", replay.moment, name="run_replay_moment"),
    path("r/<uuid:public_id>/stop/", runs.stop, name="run_stop"),
    *file_urls.urlpatterns,
]
