"""Address of signs of presence."""

from django.urls import URLPattern, path

from chat.presence import views

urlpatterns: list[URLPattern] = [
    path("c/<uuid:public_id>/presence/", views.sign, name="presence_sign"),
]
