"""Presets: a library of set-ups of an answer, which the model picker offers."""
