"""The addresses of Settings → Servers."""

from django.urls import path

from chat.views import upstreams

urlpatterns = [
    path("settings/servers/", upstreams.server_list, name="servers"),
    path("settings/servers/add/", upstreams.server_add, name="server_add"),
    path("settings/servers/states/", upstreams.server_states, name="server_states"),
    path("settings/servers/dialect/", upstreams.server_dialect, name="server_dialect"),
    path("settings/servers/<uuid:public_id>/", upstreams.server_edit, name="server"),
    path(
        "settings/servers/<uuid:public_id>/advice/", upstreams.server_advice, name="server_advice"
    ),
    path(
        "settings/servers/<uuid:public_id>/delete/", upstreams.server_delete, name="server_delete"
    ),
    path("settings/servers/<uuid:public_id>/drain/", upstreams.server_drain, name="server_drain"),
    path(
        "settings/servers/<uuid:public_id>/models/", upstreams.server_models, name="server_models"
    ),
    path(
        "settings/servers/<uuid:public_id>/switch/", upstreams.server_switch, name="server_switch"
    ),
    path("settings/servers/<uuid:public_id>/test/", upstreams.server_test, name="server_test"),
]
