"""Whether the SDK of the Model Context Protocol is installed, without importing it."""

from importlib.util import find_spec

HOW_TO_INSTALL = "the SDK of the Model Context Protocol is missing: pip install 'kohort[mcp]'"


def is_installed() -> bool:
    """Return whether the SDK can be imported."""
    return find_spec("mcp") is not None
