"""Django's entry points to the application."""

from django.apps import AppConfig
from django.contrib.admin.apps import SimpleAdminConfig


class ChatConfig(AppConfig):
    name = "chat"
    verbose_name = "Tributary"


class AdminConfig(SimpleAdminConfig):
    """Without autodiscovery: the site itself says what it shows, and other applications'
    records (mail addresses, permission groups), which mean nothing here, stay out."""

    default_site = "chat.admin.site.TributaryAdminSite"
