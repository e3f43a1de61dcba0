"""The contestant lance-spark, which runs on Spark 3.5: in an environment of its own."""
