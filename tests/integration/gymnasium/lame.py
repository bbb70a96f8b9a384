"""A module of environments that misses another module."""

import nowhere  # noqa: F401
