"""Graphs beside tables of a lakehouse: out to Delta and Parquet, in from Delta."""
