"""The addresses of sign-in at providers, and of Settings → Company sign-in."""

from django.urls import URLPattern, path

from chat.identity.views import settings, sign_in

_PROVIDER = "settings/company-sign-in/<uuid:public_id>/"

urlpatterns: list[URLPattern] = [
    path("accounts/provider/<slug:slug>/login/", sign_in.provider_sign_in, name="provider_sign_in"),
    path(
        "accounts/provider/<slug:slug>/callback/",
        sign_in.provider_callback,
        name="provider_callback",
    ),
    path(
        "accounts/provider/<slug:slug>/connect/", sign_in.provider_connect, name="provider_connect"
    ),
    path(
        "accounts/provider/<slug:slug>/backchannel-logout/",
        sign_in.provider_logout,
        name="provider_logout",
    ),
    path("settings/company-sign-in/", settings.identity_providers, name="identity_providers"),
    path(
        "settings/company-sign-in/add/",
        settings.identity_provider_add,
        name="identity_provider_add",
    ),
    path("settings/company-sign-in/passwords/", settings.passwords, name="passwords"),
    path(_PROVIDER, settings.identity_provider, name="identity_provider"),
    path(
        f"{_PROVIDER}settings/",
        settings.identity_provider_settings,
        name="identity_provider_settings",
    ),
    path(f"{_PROVIDER}test/", settings.identity_provider_test, name="identity_provider_test"),
    path(f"{_PROVIDER}trial/", settings.identity_provider_trial, name="identity_provider_trial"),
    path(f"{_PROVIDER}switch/", settings.identity_provider_switch, name="identity_provider_switch"),
    path(f"{_PROVIDER}delete/", settings.identity_provider_delete, name="identity_provider_delete"),
    path(f"{_PROVIDER}groups/", settings.group_rule_add, name="group_rule_add"),
    path(
        "settings/company-sign-in/groups/<uuid:public_id>/remove/",
        settings.group_rule_remove,
        name="group_rule_remove",
    ),
    path(
        "settings/company-sign-in/people/<uuid:public_id>/disconnect/",
        settings.identity_disconnect,
        name="identity_disconnect",
    ),
]
