"""The addresses of Settings → Servers."""

from django.urls import path

from chat.servers import views

urlpatterns = [
    path("settings/servers/", views.server_list, name="servers"),
    path("settings/servers/add/", views.server_add, name="server_add"),
    path("settings/servers/states/", views.server_states, name="server_states"),
    path("settings/servers/connect/", views.server_connect, name="server_connect"),
    path("settings/servers/discover/", views.server_discover, name="server_discover"),
    path("settings/servers/hide-demos/", views.server_hide_demos, name="server_hide_demos"),
    path("settings/servers/dialect/", views.server_dialect, name="server_dialect"),
    path("settings/servers/<uuid:public_id>/", views.server_overview, name="server"),
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
