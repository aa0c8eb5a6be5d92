"""Shares one global batch between several GPUs of a machine; not built yet."""
