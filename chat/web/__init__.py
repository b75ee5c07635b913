"""What all pages share: decorators, error pages, form fields, responses, template tags.

Imports no feature.
"""
