"""Figures, as ratios within one run: ``make bench``. Nothing here is a test, no test asserts a time."""
