"""Addresses of comparisons."""

from django.urls import URLPattern, path

from chat.compare import views

urlpatterns: list[URLPattern] = [
    path("m/<uuid:public_id>/comparison/", views.comparison, name="comparison"),
    path("m/<uuid:public_id>/comparison/stop/", views.stop, name="comparison_stop"),
    path("m/<uuid:public_id>/choose/", views.choose, name="answer_choose"),
]
