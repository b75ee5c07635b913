"""Addresses of the details of one run."""

from django.urls import URLPattern, path

from chat.run_details.views import details, log, replay

urlpatterns: list[URLPattern] = [
    path("r/<uuid:public_id>/details/", details.details, name="run_details"),
    path("r/<uuid:public_id>/export/<slug:form>/", log.export, name="run_export"),
    path("r/<uuid:public_id>/log/", log.log, name="run_log"),
    path("r/<uuid:public_id>/log/<int:seq>/", log.event, name="run_event"),
    path("r/<uuid:public_id>/replay/", replay.page, name="run_replay"),
    path("r/<uuid:public_id>/replay/frames/", replay.frames, name="run_replay_frames"),
    path("r/<uuid:public_id>/replay/moment/", replay.moment, name="run_replay_moment"),
]
