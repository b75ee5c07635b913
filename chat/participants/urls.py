"""Addresses of the Share dialog, of what it changes, and of the groups of teams."""

from django.urls import URLPattern, path

from chat.participants import group_views, views

urlpatterns: list[URLPattern] = [
    path("c/<uuid:public_id>/people/", views.people, name="conversation_people"),
    path("c/<uuid:public_id>/people/add/", views.add, name="participant_add"),
    path("c/<uuid:public_id>/people/search/", views.search, name="participant_search"),
    path(
        "c/<uuid:public_id>/people/<uuid:participant_id>/",
        views.change,
        name="participant",
    ),
    path("c/<uuid:public_id>/visibility/", views.visibility, name="conversation_visibility"),
    path("c/<uuid:public_id>/settings-shown/", views.settings_shown, name="conversation_settings"),
    path("c/<uuid:public_id>/take-over/", views.take_over, name="conversation_take_over"),
    path("people/teams/<uuid:team_id>/groups/", group_views.groups, name="groups"),
    path("people/groups/<uuid:public_id>/", group_views.group, name="group"),
    path("people/groups/<uuid:public_id>/members/", group_views.member, name="group_member"),
    path("people/groups/<uuid:public_id>/delete/", group_views.delete, name="group_delete"),
]
