"""Tool calls written as text: one module a way of writing them, and the loop over a region of them.

Knows no model: which family writes which way stands in `rules/calls`. Values are never judged here, only found.
"""
