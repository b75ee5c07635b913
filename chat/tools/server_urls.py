"""The addresses of the MCP servers of teams."""

from django.urls import URLPattern, path

from chat.tools import server_views as views

urlpatterns: list[URLPattern] = [
    path("people/tool-servers/", views.tool_servers, name="tool_servers"),
    path("people/tool-servers/add/<uuid:team_id>/", views.tool_server_add, name="tool_server_add"),
    path("people/tool-servers/<uuid:public_id>/", views.tool_server, name="tool_server"),
    path(
        "people/tool-servers/<uuid:public_id>/settings/",
        views.tool_server_settings,
        name="tool_server_settings",
    ),
    path(
        "people/tool-servers/<uuid:public_id>/people/",
        views.tool_server_people,
        name="tool_server_people",
    ),
    path(
        "people/tool-servers/<uuid:public_id>/test/",
        views.tool_server_test,
        name="tool_server_test",
    ),
    path(
        "people/tool-servers/<uuid:public_id>/switch/",
        views.tool_server_switch,
        name="tool_server_switch",
    ),
    path(
        "people/tool-servers/<uuid:public_id>/read-only/",
        views.tool_server_read_only,
        name="tool_server_read_only",
    ),
    path(
        "people/tool-servers/<uuid:public_id>/remove/",
        views.tool_server_remove,
        name="tool_server_remove",
    ),
    path(
        "people/tool-servers/tools/<uuid:public_id>/rule/",
        views.tool_server_rule,
        name="tool_server_rule",
    ),
]
