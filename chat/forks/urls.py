"""Addresses that fork a conversation."""

from django.urls import URLPattern, path

from chat.forks import views

urlpatterns: list[URLPattern] = [
    path("c/<uuid:public_id>/fork/", views.fork_conversation, name="conversation_fork"),
    path("m/<uuid:public_id>/fork/", views.fork_message, name="message_fork"),
]
