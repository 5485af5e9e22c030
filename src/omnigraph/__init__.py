"""OmniGraph: a typed property graph on Lance whose every commit lands whole or not at all."""

__version__ = "0.1.0"
