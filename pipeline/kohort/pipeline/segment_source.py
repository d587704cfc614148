"""`format("kohort-segments")`: the same table as `kohort`, straight from segment files."""

from pyspark.sql.datasource import DataSource


class SegmentSource(DataSource):
    """The topics of a data folder, read without a broker."""

    @classmethod
    def name(cls) -> str:
        """Return what `format` takes."""
        return "kohort-segments"
