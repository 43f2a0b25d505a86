"""Stored states: a header, validated fields and a checksum.

A state declares a schema of its fields; reading checks kind, version, types, shapes and relations.
Every room that defines a state imports from here. Begin with `spark_auc.core.state.schema`.
"""
