"""Carries the jar of the SQL catalog, and nothing else.

The wheel brings `jars/omnigraph-catalog.jar`; in a checkout `make jar` puts it there.
"""
