"""Addresses of comments."""

from django.urls import URLPattern, path

from chat.comments import views

urlpatterns: list[URLPattern] = [
    path("c/<uuid:public_id>/comments/", views.comments, name="conversation_comments"),
    path("m/<uuid:public_id>/comments/", views.on_message, name="message_comments"),
    path("comments/<uuid:public_id>/reply/", views.reply, name="comment_reply"),
    path("comments/<uuid:public_id>/edit/", views.edit, name="comment_edit"),
    path("comments/<uuid:public_id>/delete/", views.delete, name="comment_delete"),
    path("comments/<uuid:public_id>/resolve/", views.resolve, name="comment_resolve"),
    path("comments/<uuid:public_id>/reopen/", views.reopen, name="comment_reopen"),
]
