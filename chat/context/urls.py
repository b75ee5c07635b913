"""Addresses of what models are sent."""

from django.urls import URLPattern, path

from chat.context import views

urlpatterns: list[URLPattern] = [
    path("c/<uuid:public_id>/context/", views.context, name="conversation_context"),
    path("c/<uuid:public_id>/context/size/", views.size, name="context_size"),
    path("c/<uuid:public_id>/context/note/", views.limit_note, name="context_note"),
    path("c/<uuid:public_id>/context/start/", views.start, name="context_start"),
    path("c/<uuid:public_id>/context/summary/", views.summary, name="context_summary"),
]
