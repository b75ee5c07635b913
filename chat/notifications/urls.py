"""The address of the inbox."""

from django.urls import URLPattern, path

from chat.notifications import views

urlpatterns: list[URLPattern] = [path("inbox/", views.inbox, name="inbox")]
