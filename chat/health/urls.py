"""The address of the streaming test."""

from django.urls import URLPattern, path

from chat.health import views

urlpatterns: list[URLPattern] = [
    path("settings/streaming/", views.streaming, name="streaming"),
]
