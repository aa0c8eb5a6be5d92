"""Imported once in the server that the test processes are forked from."""

from __future__ import annotations

import os

os.environ["OMP_NUM_THREADS"] = "1"

import torch
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast  # noqa: F401

torch.set_num_threads(1)
