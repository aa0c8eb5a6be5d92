"""The Hugging Face hub: base models and published adapters; built with the issue that brings them."""
