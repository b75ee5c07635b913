"""The addresses of Settings → Servers."""

from django.urls import path

from chat.servers import access_views, views

urlpatterns = [
    path("settings/servers/", views.server_list, name="servers"),
    path("settings/servers/add/", views.server_add, name="server_add"),
    path("settings/servers/states/", views.server_states, name="server_states"),
    path("settings/servers/connect/", views.server_connect, name="server_connect"),
    path("settings/servers/discover/", views.server_discover, name="server_discover"),
    path("settings/servers/hide-demos/", views.server_hide_demos, name="server_hide_demos"),
    path("settings/servers/dialect/", views.server_dialect, name="server_dialect"),
    path("settings/servers/<uuid:public_id>/", views.server_overview, name="server"),
    path(
        "settings/servers/<uuid:public_id>/access/",
        access_views.server_access,
        name="server_access",
    ),
    path(
        "settings/servers/<uuid:public_id>/access/add/",
        access_views.grant_add,
        name="server_grant_add",
    ),
    path(
        "settings/servers/<uuid:public_id>/access/<uuid:grant_id>/",
        access_views.grant,
        name="server_grant",
    ),
    path(
        "settings/servers/<uuid:public_id>/access/<uuid:grant_id>/remove/",
        access_views.grant_remove,
        name="server_grant_remove",
    ),
    path("people/teams/<uuid:team_id>/models/", access_views.team_models, name="team_models"),
    path("settings/servers/<uuid:public_id>/advice/", views.server_advice, name="server_advice"),
    path("settings/servers/<uuid:public_id>/delete/", views.server_delete, name="server_delete"),
    path(
        "settings/servers/<uuid:public_id>/diagnostics/",
        views.server_diagnostics,
        name="server_diagnostics",
    ),
    path("settings/servers/<uuid:public_id>/drain/", views.server_drain, name="server_drain"),
    path("settings/servers/<uuid:public_id>/models/", views.server_models, name="server_models"),
    path(
        "settings/servers/<uuid:public_id>/models/switch/",
        views.server_model_switch,
        name="server_model_switch",
    ),
    path(
        "settings/servers/<uuid:public_id>/settings/", views.server_settings, name="server_settings"
    ),
    path("settings/servers/<uuid:public_id>/switch/", views.server_switch, name="server_switch"),
    path("settings/servers/<uuid:public_id>/test/", views.server_test, name="server_test"),
]
