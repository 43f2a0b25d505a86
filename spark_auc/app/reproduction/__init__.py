"""Experiments of the papers, run again: one module each, beside what they share."""
