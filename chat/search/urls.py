"""Addresses of searching."""

from django.urls import URLPattern, path

from chat.search import views

urlpatterns: list[URLPattern] = [
    path("c/search/", views.search, name="search"),
    path("c/search/palette/", views.palette, name="search_palette"),
    path("c/<uuid:public_id>/find/", views.find_in_conversation, name="conversation_find"),
]
