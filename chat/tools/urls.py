"""The addresses of a team's function tools."""

from django.urls import URLPattern, path

from chat.tools import views

urlpatterns: list[URLPattern] = [
    path("people/tools/", views.tools, name="tools"),
    path("people/tools/add/<uuid:team_id>/", views.add, name="tool_add"),
    path("people/tools/<uuid:public_id>/", views.change, name="tool"),
    path("people/tools/<uuid:public_id>/remove/", views.remove, name="tool_remove"),
]
