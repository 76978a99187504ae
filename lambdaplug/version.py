"""The version, where packaging tools can read it without importing anything."""

__version__ = "0.3.0"
