"""The data source `omnigraph`, registered by the module name that PySpark searches for."""

from contextlib import suppress

# Spark stops its search for data sources, including those of other packages, at the first module
# that cannot be imported. A Python may have this module but lack its dependencies.
with suppress(ModuleNotFoundError):
    from omnigraph.spark.connector.source import OmniGraphSource as DefaultSource  # noqa: F401
