"""The engine's interchange records: JSON lines in, Arrow batches for each type; and rows out again.

`reading` and `exporting` are the two doors. Nothing is imported here: a task that only reads lines
need not load the storage that exporting does.
"""
