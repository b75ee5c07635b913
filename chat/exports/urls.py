"""Addresses of exported conversations."""

from django.urls import URLPattern, path

from chat.exports import views

urlpatterns: list[URLPattern] = [
    path("c/<uuid:public_id>/export/<slug:form>/", views.download, name="conversation_export"),
    path("c/<uuid:public_id>/print/", views.printed, name="conversation_print"),
]
