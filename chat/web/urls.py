"""The frame in which diagrams are drawn, and the style guide."""

from django.urls import URLPattern, path

from chat.web import styleguide, views

urlpatterns: list[URLPattern] = [
    path("frames/diagram/", views.diagram, name="diagram_frame"),
    path("styleguide/", styleguide.styleguide, name="styleguide"),
]
