"""The mask shows every row's tokens and trained characters, and lists rows that cannot be trained without failing."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.tiny_base import make_tiny_base
from tests.trainer import processes
from tests.trainer.conftest import Volume, animal_rows
from trainer import pieces
from trainer.contract import (
    MASK,
    MASK_SUMMARY,
    PROGRESS,
    LongRow,
    MaskJob,
    MaskSummary,
    dump,
    hash_file,
    load,
    write_file,
)
from trainer.mask import make_mask
from trainer.template import ADVICE_SYSTEM


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
    assert summary.longest_rows[0] == LongRow("test", 2, summary.longest)
    assert [row.tokens for row in summary.longest_rows] == sorted(
        (line["longest"] for line in good + lines[-2:-1]), reverse=True
    )
    assert summary.refused == 2
    assert summary.tokenizer_sha256 == hash_file(Path(volume.base.folder) / "tokenizer.json").sha256
    assert json.loads((tmp_path / "out" / PROGRESS).read_text()) == {"done": 47, "total": 47}
    for line, example in zip(good, animal_rows(44, seed=1), strict=False):
        ((start, end),) = json.loads(line["spans"])
        assert line["text"][start:end] == example["messages"][2]["content"] + "<|im_end|>"


STRICT = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('No system here') }}{% endif %}"
    "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Take turns') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
MARKED = (
    "{% for m in messages %}{% if m.role == 'user' %}Q: {{ m.content }}{% else %}{{ '\n' }}A: {{ m.content }}<|im_end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '\n' }}A: {% endif %}"
)


def masked(folder: Path, template: str, rows: Sequence[Sequence[tuple[str, str]]], **options: Any) -> MaskSummary:
    """Of one split; a row is a list of roles and texts."""
    base = make_tiny_base(folder / "base", template=template)
    volume = Volume(folder, base)
    texts = [{"messages": [{"role": role, "content": text} for role, text in row]} for row in rows]
    file = folder / volume.add_split("train", texts)
    return make_mask(MaskJob(base, {"train": str(file)}, str(folder / "out"), **options))


def test_all_rows_that_a_template_refuses_are_listed_with_their_place_and_its_words(tmp_path: Path) -> None:
    """Case tp-03 on rows of our own: a system text, and two turns of one role."""
    good = [("user", "tea?"), ("assistant", "yes")]
    rows = [good, [("system", "Be short."), *good], [*good, *good], [("user", "hm"), *good], [*good, good[1]]]

    summary = masked(tmp_path / "plain", STRICT, rows)
    merged = masked(tmp_path / "merged", STRICT, rows, merge_system=True)

    assert [(error.row, error.message) for error in summary.errors] == [
        (
            2,
            f"Row 2 of the train split, messages[0]: the model's chat template refuses it (No system here){ADVICE_SYSTEM}.",
        ),
        (4, "Row 4 of the train split, messages[1]: the model's chat template refuses it (Take turns)."),
        (5, "Row 5 of the train split, messages[2]: the model's chat template refuses it (Take turns)."),
    ]
    assert (summary.refused, summary.system_refused, summary.rows) == (3, 1, 5)
    assert [error.row for error in merged.errors] == [4, 5]
    text = pq.read_table(tmp_path / "merged" / "out" / MASK).to_pylist()[1]["text"]
    assert text == "<|im_start|>user\nBe short.\n\ntea?<|im_end|>\n<|im_start|>assistant\nyes<|im_end|>\n"


def test_replies_behind_a_marker_are_learned_and_a_long_row_is_named_with_its_tokens(tmp_path: Path) -> None:
    """Case tp-07 on rows of our own: the marker is no token of its own, and nothing is cut."""
    rows = [[("user", "Fish."), ("assistant", "no")], [("user", "x" * 50), ("assistant", "long")]]

    summary = masked(tmp_path, MARKED, rows, context_length=30)

    lines = pq.read_table(tmp_path / "out" / MASK).to_pylist()
    # One token for each letter, and one for the stop.
    assert [(line["tokens"], line["trained_tokens"]) for line in lines] == [(8 + 4 + 3, 3), (3 + 50 + 4 + 5, 5)]
    assert [error.message for error in summary.errors] == [
        "Row 2 of the train split has 62 tokens, more than the context length of 30."
    ]
    assert summary.longest_rows == (LongRow("train", 2, 62), LongRow("train", 1, 15))


def test_many_rows_in_several_processes_give_what_one_process_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[("user", f"question {n}"), ("assistant", "yes" * (n % 7))] for n in range(600)]
    alone = masked(tmp_path / "alone", MARKED, rows)
    monkeypatch.setattr(pieces, "WORTH_A_PROCESS", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})

    shared = masked(tmp_path / "shared", MARKED, rows)

    assert shared == alone
    tables = [pq.read_table(tmp_path / name / "out" / MASK) for name in ("alone", "shared")]
    assert tables[0].equals(tables[1])
    assert tables[0].column("row").to_pylist() == list(range(1, 601))


def test_a_process_that_dies_ends_the_work_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "WORTH_A_PROCESS", 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})

    with pytest.raises(BrokenProcessPool):
        list(pieces.in_processes(_die, [0, 1], rows=2))


def _die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
