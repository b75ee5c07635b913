"""The address of the frame in which diagrams are drawn."""

from django.urls import URLPattern, path

from chat.web import views

urlpatterns: list[URLPattern] = [path("frames/diagram/", views.diagram, name="diagram_frame")]
