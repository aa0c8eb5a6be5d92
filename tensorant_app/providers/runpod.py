"""Machines rented from RunPod, through its REST API v2; built with the issue that brings rented GPUs."""
