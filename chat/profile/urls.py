"""Addresses of profile pictures."""

from django.urls import URLPattern, path

from chat.profile import views

urlpatterns: list[URLPattern] = [
    path(
        "people/<uuid:person_id>/picture/remove/",
        views.person_picture_remove,
        name="person_picture_remove",
    ),
    path("people/<uuid:person_id>/picture/<slug:version>/", views.picture, name="picture"),
    path("settings/picture/", views.picture_set, name="picture_set"),
    path("settings/picture/remove/", views.picture_remove, name="picture_remove"),
]
