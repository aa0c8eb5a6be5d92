"""What a GPU's name tells."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tensorant_app.domain.gpus import describe_gpu, is_version_at_least, label_gpu

NAMES = [
    ("NVIDIA L40S", "8.9", None),
    ("NVIDIA L4", "8.9", None),
    ("NVIDIA A100-SXM4-80GB", "8.0", None),
    ("NVIDIA RTX A6000", "8.6", None),
    ("NVIDIA RTX 6000 Ada Generation", "8.9", None),
    ("NVIDIA GeForce RTX 4090", "8.9", None),
    ("NVIDIA H100 80GB HBM3", "9.0", None),
    ("NVIDIA B200", "10.0", None),
    ("NVIDIA GeForce RTX 5090", "12.0", None),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb", "12.0", None),
    ("NVIDIA Something New", "", None),
    ("Tesla V100-SXM2-16GB", "7.0", "too old"),
    ("Tesla T4", "7.5", "too old"),
    ("NVIDIA GH200 480GB", "9.0", "arm64"),
    ("NVIDIA GB200", "10.0", "arm64"),
    ("NVIDIA Grace Hopper", "", "arm64"),
    ("AMD Instinct MI300X OAM", "", "not made by NVIDIA"),
]


@pytest.mark.parametrize(("name", "capability", "reason"), NAMES)
def test_a_name_tells_whether_it_can_train(name: str, capability: str, reason: str | None) -> None:
    found = describe_gpu(name)

    assert found.capability == capability
    assert (found.reason is None) if reason is None else (reason in (found.reason or ""))


def test_another_maker_is_refused_by_the_catalogs_word() -> None:
    assert "NVIDIA" in (describe_gpu("MI300X", "AMD").reason or "")
    assert describe_gpu("L4", "nvidia").reason is None


def test_a_slice_of_a_gpu_says_so() -> None:
    name = "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb"

    assert describe_gpu(name).is_slice
    assert label_gpu(name) == "NVIDIA RTX PRO 6000 Blackwell Server Edition, 24GB part"
    assert label_gpu("PRO 6000 MIG 24GB") == "PRO 6000 MIG 24GB (part of one GPU)"
    assert label_gpu("L40S") == "L40S"


def test_versions_are_compared_number_by_number() -> None:
    assert is_version_at_least("12.11", "12.2")
    assert not is_version_at_least("12.8", "12.9")
    assert is_version_at_least("13.0", "12.8")


def test_the_table_agrees_with_the_reference_data_where_it_is_at_hand() -> None:
    reference = Path(__file__).parents[3] / "shared/runpod/gpu-types-annotated.json"
    if not reference.exists():
        pytest.skip("the reference data is not part of the project")

    for gpu in json.loads(reference.read_text()):
        found = describe_gpu(gpu["id"])
        assert (found.reason is None) == gpu["trainable"], gpu["id"]
        if gpu["compute_capability"] not in {"-", None}:
            assert found.capability == gpu["compute_capability"], gpu["id"]
