"""The mask shows every row's tokens and trained characters, and lists rows that cannot be trained without failing."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq

from tests.trainer import processes
from tests.trainer.conftest import Volume, animal_rows
from trainer.contract import MASK, MASK_SUMMARY, PROGRESS, MaskJob, MaskSummary, dump, hash_file, load, write_file


def test_a_mask_of_two_splits_with_bad_rows(volume: Volume, tmp_path: Path) -> None:
    broken = [*animal_rows(2, seed=5), {"messages": [{"role": "user", "content": "hello"}]}]
    broken[1]["messages"][1]["content"] = "long " * 40
    files = {
        "train": str(volume.root / "train.parquet"),
        "test": str(volume.root / volume.add_split("half-broken", broken)),
    }
    job = MaskJob(volume.base, files, str(tmp_path / "out"), context_length=150)
    write_file(tmp_path / "job.json", dump(job))

    code = processes.run(["mask", "--job", str(tmp_path / "job.json")], log=tmp_path / "log.txt")

    assert code == 0, (tmp_path / "log.txt").read_text()
    summary = load(MaskSummary, (tmp_path / "out" / MASK_SUMMARY).read_text())
    lines = pq.read_table(tmp_path / "out" / MASK).to_pylist()
    good = [line for line in lines if line["error"] is None]
    assert (summary.rows, len(lines)) == (47, 47)
    assert [(error.split, error.row) for error in summary.errors] == [("test", 2), ("test", 3)]
    assert "more than the context length of 150" in summary.errors[0].message
    assert summary.tokens["train"] == sum(line["tokens"] for line in lines if line["split"] == "train")
    assert summary.trained_tokens["train"] == sum(line["trained_tokens"] for line in lines if line["split"] == "train")
    assert summary.longest == max(line["tokens"] for line in lines)
    assert summary.tokenizer_sha256 == hash_file(Path(volume.base.folder) / "tokenizer.json").sha256
    assert json.loads((tmp_path / "out" / PROGRESS).read_text()) == {"done": 47, "total": 47}
    for line, example in zip(good, animal_rows(44, seed=1), strict=False):
        ((start, end),) = json.loads(line["spans"])
        assert line["text"][start:end] == example["messages"][2]["content"] + "<|im_end|>"
