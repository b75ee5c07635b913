"""Addresses of feedback on answers."""

from django.urls import URLPattern, path

from chat.feedback import figures_views, views

urlpatterns: list[URLPattern] = [
    path("m/<uuid:public_id>/feedback/", views.on_answer, name="message_feedback"),
    path("m/<uuid:public_id>/feedback/withdraw/", views.withdraw, name="feedback_withdraw"),
    path(
        "m/<uuid:public_id>/feedback/<uuid:person>/note/",
        views.remove_note,
        name="feedback_note_remove",
    ),
    path("administration/feedback/", figures_views.figures, name="feedback_figures"),
    path("administration/feedback/export/", figures_views.export, name="feedback_export"),
]
