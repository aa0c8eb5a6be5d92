"""What a GPU's name tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tensorant_app.domain.gpus import describe_gpu, label_gpu
from tensorant_app.domain.money import HourlyRate
from tensorant_app.domain.offers import NEVER, Offer, Wanted, judge

NAMES = [
    ("NVIDIA L40S", "8.9", "amd64", True),
    ("NVIDIA L4", "8.9", "amd64", True),
    ("NVIDIA A100-SXM4-80GB", "8.0", "amd64", True),
    ("NVIDIA RTX A6000", "8.6", "amd64", True),
    ("NVIDIA RTX 2000 Ada Generation", "8.9", "amd64", True),
    ("NVIDIA GeForce RTX 4090", "8.9", "amd64", True),
    ("NVIDIA H100 80GB HBM3", "9.0", "amd64", True),
    ("NVIDIA B200", "10.0", "amd64", True),
    ("NVIDIA GeForce RTX 5090", "12.0", "amd64", True),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb", "12.0", "amd64", True),
    ("NVIDIA Something New", "", "amd64", True),
    ("Tesla V100-SXM2-16GB", "7.0", "amd64", True),
    ("Tesla T4", "7.5", "amd64", True),
    ("NVIDIA GeForce RTX 2080 Ti", "7.5", "amd64", True),
    ("NVIDIA GH200 480GB", "9.0", "arm64", True),
    ("NVIDIA GB200", "10.0", "arm64", True),
    ("NVIDIA Grace Hopper", "", "arm64", True),
    ("AMD Instinct MI300X OAM", "", "amd64", False),
]


@pytest.mark.parametrize(("name", "capability", "arch", "is_nvidia"), NAMES)
def test_a_name_tells_capability_processor_and_maker(name: str, capability: str, arch: str, is_nvidia: bool) -> None:
    found = describe_gpu(name)

    assert (found.capability, found.arch, found.is_nvidia) == (capability, arch, is_nvidia)


def test_the_catalogs_word_on_the_maker_counts_too() -> None:
    assert not describe_gpu("MI300X", "AMD").is_nvidia
    assert describe_gpu("L4", "NVIDIA").is_nvidia


def test_a_slice_of_a_gpu_says_so() -> None:
    name = "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb"

    assert label_gpu(name) == "NVIDIA RTX PRO 6000 Blackwell Server Edition, 24GB part"
    assert label_gpu("PRO 6000 MIG 24GB") == "PRO 6000 MIG 24GB (part of one GPU)"
    assert label_gpu("L40S") == "L40S"


def test_the_table_agrees_with_the_reference_data_where_it_is_at_hand() -> None:
    reference = Path(__file__).parents[3] / "shared/runpod/gpu-types-annotated.json"
    if not reference.exists():
        pytest.skip("the reference data is not part of the project")
    wanted = Wanted(1, HourlyRate.dollars(100), None, None)

    for gpu in json.loads(reference.read_text()):
        found = describe_gpu(gpu["id"])
        offer = Offer(gpu["id"], gpu["name"], 1, HourlyRate.dollars(1), arch=found.arch, capability=found.capability)
        assert (judge(offer, wanted, {}).problem not in NEVER) == gpu["trainable"], gpu["id"]
        if gpu["compute_capability"] not in {"-", None}:
            assert found.capability == gpu["compute_capability"], gpu["id"]
