"""Addresses of favorite models."""

from django.urls import path

from chat.favorites import views

urlpatterns = [
    path("models/favorites/", views.favorite, name="favorite"),
    path("models/favorites/remove/", views.favorite_remove, name="favorite_remove"),
]
