"""The addresses of accounts at tool servers."""

from django.urls import URLPattern, path

from chat.tools.sign_in import views

urlpatterns: list[URLPattern] = [
    path("settings/connections/", views.accounts, name="tool_accounts"),
    path("settings/connections/callback/", views.callback, name="tool_account_callback"),
    path(
        "settings/connections/<uuid:public_id>/connect/",
        views.connect,
        name="tool_account_connect",
    ),
    path(
        "settings/connections/<uuid:public_id>/disconnect/",
        views.disconnect,
        name="tool_account_disconnect",
    ),
    path("q/<uuid:public_id>/connect/", views.connect_from_card, name="call_connect"),
    path(
        "people/tool-servers/<uuid:public_id>/connect/",
        views.connect_for_listing,
        name="tool_server_connect",
    ),
    path(
        "people/tool-servers/<uuid:public_id>/client/",
        views.enter_client_id,
        name="tool_server_client",
    ),
    path("oauth/client-metadata.json", views.client_metadata, name="oauth_client_metadata"),
]
