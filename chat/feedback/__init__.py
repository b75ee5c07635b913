"""Feedback of people on answers: thumbs with reasons and a note, choices between compared answers, and figures."""
