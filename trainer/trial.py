"""Measures a few steps and extrapolates a whole run; not built yet."""
