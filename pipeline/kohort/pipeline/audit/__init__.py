"""Whether the segments of a data folder are as they should be, asked of all at once on Spark."""

from kohort.pipeline.audit.job import Audit, AuditError, audit, partitions_in
from kohort.pipeline.audit.walk import Kind

__all__ = ["Audit", "AuditError", "Kind", "audit", "partitions_in"]
