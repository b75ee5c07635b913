"""What all pages share: decorators, error pages, form fields, responses, template tags.

It must not import a feature.
"""
