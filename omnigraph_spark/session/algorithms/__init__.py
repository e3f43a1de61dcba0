"""Graph algorithms on plain DataFrames; `omnigraph_spark.algorithms` is their public name.

Made of joins, aggregates and checkpoints alone, which classic Spark and Connect both have. The
driver sees a few numbers of each round, never rows.
"""
