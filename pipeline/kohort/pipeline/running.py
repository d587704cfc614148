"""A query on Spark that runs."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Generic, Self, TypeVar

from pyspark.sql.streaming.query import StreamingQuery

Summary = TypeVar("Summary")


class RunningQuery(ABC, Generic[Summary]):
    """A context manager that stops its query."""

    def __init__(self, query: StreamingQuery) -> None:
        self.query = query

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Return whether the query has ended within the time. Raises: StreamingQueryException."""
        if timeout_s is None:
            self.query.awaitTermination()
            return True
        return bool(self.query.awaitTermination(timeout_s))  # type: ignore[arg-type]  # It takes fractions as well.

    @abstractmethod
    def stop(self) -> Summary:
        """Stop the query if it runs, and return its result."""
