"""What needs a SparkSession. The only folder of the engine that imports pyspark."""
