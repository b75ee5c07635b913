"""The address of Settings → Titles."""

from django.urls import URLPattern, path

from chat.titles import views

urlpatterns: list[URLPattern] = [path("settings/titles/", views.titles, name="titles")]
