"""The web process; built with the console."""
