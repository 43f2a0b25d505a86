"""The papers' tables and figures, and the comparators that only these experiments use."""
