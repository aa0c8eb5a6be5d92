"""Colours, sizes and fonts of the console; built with the console."""
