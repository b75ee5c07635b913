"""Forty faults that measure whether the tests have kept their power. For as long as the tests are being rebuilt."""
