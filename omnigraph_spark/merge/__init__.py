"""Merging branches: the base of two heads, what each type needs, conflicts, one merge commit.

`base` and `plan` decide from metadata alone, `rows` joins what both sides changed, `merging`
stages, checks and lands it. `preview` says what would happen.
"""
