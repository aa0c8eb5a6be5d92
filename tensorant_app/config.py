"""Reflex's configuration; built with the console."""
