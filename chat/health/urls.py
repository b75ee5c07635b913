"""The addresses of the self-tests."""

from django.urls import URLPattern, path

from chat.health import views

urlpatterns: list[URLPattern] = [
    path("settings/streaming/", views.streaming, name="streaming"),
    path("settings/mail/", views.mail, name="mail"),
]
