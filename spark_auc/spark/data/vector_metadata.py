"""What the metadata of a vector column say of its features."""

from __future__ import annotations

from pyspark.sql.types import StructField


def names_and_size(column: StructField) -> tuple[tuple[str, ...] | None, int | None]:
    """Feature names and dimension in the metadata of Spark ML or of the LIBSVM source."""
    metadata = (column.metadata or {}).get("ml_attr", {})
    attributes = sorted(
        (a for group in metadata.get("attrs", {}).values() for a in group), key=lambda a: a["idx"]
    )
    names = tuple(str(a["name"]) for a in attributes if "name" in a)
    dimension = metadata.get("num_attrs") or (column.metadata or {}).get("numFeatures")
    return names or None, int(dimension or len(attributes)) or None
