"""Addresses at which administrators are asked for a reason."""

from django.urls import URLPattern, path

from chat.access_reasons import views

urlpatterns: list[URLPattern] = [
    path("administration/open/<uuid:public_id>/", views.opening, name="administrator_open"),
    path("administration/search/", views.searching, name="administrator_search"),
]
