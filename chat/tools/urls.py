"""The addresses of a team's tools, and of decisions about their calls."""

from django.urls import URLPattern, path

from chat.tools import call_views, server_urls, views
from chat.tools.sign_in import urls as sign_in_urls
from chat.tools.web import views as web_views

urlpatterns: list[URLPattern] = [
    path("people/tools/", views.tools, name="tools"),
    path("people/tools/add/<uuid:team_id>/", views.add, name="tool_add"),
    path("people/tools/check/<uuid:team_id>/", views.check, name="tool_check"),
    path("people/tools/web-search/<uuid:public_id>/", web_views.web_search, name="web_search"),
    path(
        "people/tools/web-search/<uuid:public_id>/remove/",
        web_views.web_search_remove,
        name="web_search_remove",
    ),
    path("people/tools/<uuid:public_id>/", views.change, name="tool"),
    path("people/tools/<uuid:public_id>/remove/", views.remove, name="tool_remove"),
    path("c/<uuid:public_id>/tools/forget/", call_views.forget_choice, name="tool_choice_forget"),
    path("q/<uuid:public_id>/approve/", call_views.approve, name="call_approve"),
    path("q/<uuid:public_id>/not-approve/", call_views.refuse, name="call_refuse"),
    path("q/<uuid:public_id>/run-again/", call_views.run_again, name="call_run_again"),
    path("q/<uuid:public_id>/result/", call_views.give_result, name="call_result"),
    path("q/<uuid:public_id>/without/", call_views.go_on_without, name="call_go_on"),
    *server_urls.urlpatterns,
    *sign_in_urls.urlpatterns,
]
