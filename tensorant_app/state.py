"""The base of every page's state; built with the console."""
