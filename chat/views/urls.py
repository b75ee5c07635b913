"""The addresses of the pages and forms."""

from django.urls import URLPattern, URLResolver

from chat.views import conversation_urls, people_urls, question_urls, tool_urls, upstream_urls

urlpatterns: list[URLPattern | URLResolver] = [
    # The conversation page.
    *conversation_urls.urlpatterns,
    # What an answer waits for, and the tools that it may ask for.
    *question_urls.urlpatterns,
    *tool_urls.urlpatterns,
    # Accounts, people, setup.
    *people_urls.urlpatterns,
    # Servers.
    *upstream_urls.urlpatterns,
]
