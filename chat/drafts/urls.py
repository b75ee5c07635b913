"""Addresses of drafts."""

from django.urls import URLPattern, path

from chat.drafts import views

urlpatterns: list[URLPattern] = [
    path("c/<uuid:public_id>/draft/", views.save, name="draft_save"),
    path("drafts/new/", views.save_new, name="draft_save_new"),
]
