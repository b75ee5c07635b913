"""Addresses of the queue of messages."""

from django.urls import URLPattern, path

from chat.message_queue import views

urlpatterns: list[URLPattern] = [
    path("c/<uuid:public_id>/queue/", views.queue, name="conversation_queue"),
    path("queued/<uuid:public_id>/edit/", views.edit, name="queued_message_edit"),
    path("queued/<uuid:public_id>/remove/", views.remove, name="queued_message_remove"),
    path("queued/<uuid:public_id>/send/", views.send, name="queued_message_send"),
]
