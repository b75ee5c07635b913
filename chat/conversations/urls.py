"""Addresses of conversations, their messages, and the answers on their pages."""

from django.urls import URLPattern, path

from chat.conversations.views import conversations, messages

urlpatterns: list[URLPattern] = [
    path("", conversations.home, name="home"),
    path("c/", conversations.new, name="conversation_new"),
    path("c/list/", conversations.listing, name="conversation_list"),
    path("c/parameters/", conversations.parameters, name="conversation_parameters"),
    path("c/<uuid:public_id>/", conversations.page, name="conversation"),
    path("c/<uuid:public_id>/changes/", conversations.changes, name="conversation_changes"),
    path(
        "c/<uuid:public_id>/earlier/<uuid:before>/",
        conversations.earlier,
        name="conversation_earlier",
    ),
    path("c/<uuid:public_id>/rename/", conversations.rename, name="conversation_rename"),
    path("c/<uuid:public_id>/send/", messages.send, name="conversation_send"),
    path("c/<uuid:public_id>/tools/", conversations.switch, name="conversation_tools"),
    path("m/<uuid:public_id>/edit/", messages.edit, name="message_edit"),
    path("m/<uuid:public_id>/retry/", messages.retry, name="message_retry"),
    path("m/<uuid:public_id>/", messages.find, name="message_find"),
    path("m/<uuid:public_id>/show/", messages.show_version, name="message_show"),
    path("m/<uuid:public_id>/source/", messages.source, name="message_source"),
    path("r/<uuid:public_id>/part/<slug:part_id>/", messages.part, name="run_part"),
    path("r/<uuid:public_id>/text/", messages.text, name="run_text"),
    path("r/<uuid:public_id>/stop/", messages.stop, name="run_stop"),
]
