"""The address of the names that can be mentioned."""

from django.urls import URLPattern, path

from chat.mentions import views

urlpatterns: list[URLPattern] = [
    path("c/<uuid:public_id>/mentions/", views.find, name="mention_find"),
]
