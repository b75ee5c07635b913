"""Addresses of the pages of conversations, and of what changes one or several of them."""

from django.urls import URLPattern, path

from chat.organization import views

urlpatterns: list[URLPattern] = [
    path("c/<uuid:public_id>/options/", views.options, name="conversation_options"),
    path("conversations/", views.everything, name="conversations"),
    path("conversations/archived/", views.archived, name="conversations_archived"),
    path("conversations/trash/", views.trash, name="conversations_trash"),
    path("conversations/trash/empty/", views.empty_trash, name="trash_empty"),
    path("conversations/<slug:verb>/", views.change, name="conversations_change"),
]
