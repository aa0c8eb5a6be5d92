"""Paths of pages and the builders of their addresses; built with the console."""
