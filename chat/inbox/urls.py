"""Addresses of the inbox."""

from django.urls import URLPattern, path

from chat.inbox import views

urlpatterns: list[URLPattern] = [
    path("inbox/", views.inbox, name="inbox"),
    path("inbox/read/", views.mark_read, name="inbox_read"),
    path("inbox/notifications/", views.notifications, name="inbox_notifications"),
]
