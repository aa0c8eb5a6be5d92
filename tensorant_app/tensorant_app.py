"""The composition root of the web process; built with the console."""
