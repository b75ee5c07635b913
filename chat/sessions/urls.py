"""Addresses of the sessions in a person's settings."""

from django.urls import URLPattern, path

from chat.sessions import views

urlpatterns: list[URLPattern] = [
    path("settings/sessions/", views.sessions, name="sessions"),
    path("settings/sessions/end/", views.sessions_end, name="sessions_end"),
    path("settings/sessions/<uuid:public_id>/end/", views.session_end, name="session_end"),
]
