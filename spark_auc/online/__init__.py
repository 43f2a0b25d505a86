"""Learners that take rows one after another."""
