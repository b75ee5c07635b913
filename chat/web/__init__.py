"""Code shared by all pages: decorators, error pages, form fields, responses, template tags.

It must not import a feature.
"""
