"""Found by Spark on its own; must never fail to import."""
