"""The published learners that the papers compare theirs with, one file each."""
