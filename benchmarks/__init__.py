"""How fast graphs are beside Parquet, Delta and the released engine: `python -m benchmarks`."""
