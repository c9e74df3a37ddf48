"""Spark: the only package that imports pyspark, and each module of it only when it is used."""
