"""Serves a base with adapters behind an OpenAI-compatible endpoint; not built yet."""
