"""Iceberg by pyiceberg: the name of a table, and its catalog.

Iceberg's own runtime for Spark is published for 4.0 and 4.1 alone, and fails on 4.2. So Spark writes the
files, and pyiceberg puts them into the table: it runs on the driver, beside any Spark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kohort.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog

PARTS_MIN = 3


class NoIcebergError(PipelineError):
    """pyiceberg is not installed, or it knows no such catalog."""


class IcebergName(NamedTuple):
    """The name of a table: its catalog in pyiceberg's configuration, and its place there."""

    catalog: str
    identifier: tuple[str, ...]

    def __str__(self) -> str:
        """Return the name as it is given."""
        return ".".join((self.catalog, *self.identifier))


def parse_name(text: str) -> IcebergName:
    """Return the table's name from its text. Raises: NoIcebergError."""
    parts = text.split(".")
    if len(parts) < PARTS_MIN or not all(parts) or "/" in text:
        raise NoIcebergError(
            f"{text!r} is no name of an Iceberg table: give CATALOG.NAMESPACE.TABLE, with a catalog of"
            " pyiceberg's configuration"
        )
    return IcebergName(parts[0], tuple(parts[1:]))


def require_pyiceberg() -> None:
    """Return if pyiceberg is installed. Raises: NoIcebergError."""
    try:
        import pyiceberg.catalog  # noqa: F401, PLC0415  # Of the extra `iceberg`.
    except ModuleNotFoundError as error:
        raise NoIcebergError(f"Iceberg needs {error.name}: pip install 'kohort[iceberg]'") from None


def open_catalog(name: str) -> Catalog:
    """Return the catalog of that name in pyiceberg's configuration. Raises: NoIcebergError."""
    require_pyiceberg()
    from pyiceberg.catalog import load_catalog  # noqa: PLC0415

    try:
        return load_catalog(name)
    except Exception as error:  # Each kind of catalog has errors of its own.
        raise NoIcebergError(
            f"pyiceberg cannot open the catalog {name}: {error}. Configure it in .pyiceberg.yaml or by"
            f" PYICEBERG_CATALOG__{name.upper()}__URI and its like"
        ) from error
