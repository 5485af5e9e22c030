"""The format `omnigraph` for every Spark session: PySpark looks for it in packages of such names."""

from omnigraph.spark.source import OmniGraphSource as DefaultSource

__all__ = ["DefaultSource"]
