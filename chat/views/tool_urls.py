"""The addresses of a team's function tools."""

from django.urls import URLPattern, path

from chat.views import tools

urlpatterns: list[URLPattern] = [
    path("c/<uuid:public_id>/tools/", tools.switch, name="conversation_tools"),
    path("people/teams/<uuid:team_id>/tools/add/", tools.add, name="tool_add"),
    path("people/tools/<uuid:public_id>/", tools.change, name="tool"),
    path("people/tools/<uuid:public_id>/remove/", tools.remove, name="tool_remove"),
]
