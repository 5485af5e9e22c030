"""The format `omnigraph` for every Spark session: PySpark looks for it in modules like this."""

from omnigraph.spark.format.source import OmniGraphSource as DefaultSource

__all__ = ["DefaultSource"]
