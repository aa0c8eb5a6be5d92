"""A template without a system role: the system text stands before the first question, in masks, training and evaluation alike."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.tiny_base import CHATML, make_tiny_base
from tests.trainer.conftest import OPTIONS, Volume, animal_rows
from trainer.contract import ANSWERS, MASK, AttemptKeys, MaskJob, Outcome, TrialLimits, verify_folder
from trainer.mask import make_mask

NO_SYSTEM = (
    "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}" + CHATML
)
MERGED = replace(OPTIONS, epochs=1, merge_system=True)


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Volume:
    """A volume whose base refuses system messages, and rows that have one."""
    root = tmp_path_factory.mktemp("strict")
    volume = Volume(root, make_tiny_base(root / "base", template=NO_SYSTEM))
    for number, (name, count) in enumerate({"train": 12, "validation": 4, "test": 5}.items()):
        volume.add_split(name, animal_rows(count, seed=number))
    return volume


@pytest.fixture(scope="module")
def tuned(strict: Volume) -> AttemptKeys:
    keys = strict.add_run("merged", options=MERGED)
    assert strict.run("train", keys) == 0, strict.log(keys).read_text()
    return keys


def mask(volume: Volume, out: Path, *, merged: bool):  # type: ignore[no-untyped-def]
    files = {name: str(volume.root / f"{name}.parquet") for name in ("train", "validation", "test")}
    return make_mask(MaskJob(volume.base, files, str(out), merge_system=merged))


def test_the_mask_counts_the_rows_that_only_their_system_text_keeps_out(strict: Volume, tmp_path: Path) -> None:
    refused, merged = (mask(strict, tmp_path / str(on), merged=on) for on in (False, True))

    assert (refused.system_refused, len(refused.errors)) == (21, 21)
    assert (merged.system_refused, merged.errors) == (0, ())
    text = pq.read_table(tmp_path / "True" / MASK, columns=["text"]).column(0).to_pylist()[0]
    assert text.startswith("<|im_start|>user\nName the animal.\n\n")


def test_a_run_trains_on_what_the_mask_showed_and_its_adapter_says_so(
    strict: Volume, tuned: AttemptKeys, tmp_path: Path
) -> None:
    merged = mask(strict, tmp_path, merged=True)

    events = strict.lines(tuned, "events.jsonl")
    prepared = next(event for event in events if event["kind"] == "rows_prepared")
    assert (prepared["train"], merged.sequences["train"]) == (12, 12)
    assert verify_folder(strict.root / tuned.adapter).facts["merge_system"] is True


@pytest.mark.parametrize("with_adapter", [False, True], ids=["baseline", "adapter"])
def test_a_baseline_and_an_adapter_are_asked_the_same_prompts(
    strict: Volume, tuned: AttemptKeys, with_adapter: bool
) -> None:
    adapter = tuned.adapter if with_adapter else None
    keys = strict.add_evaluation(f"merged-{with_adapter}", merge_system=True, adapter=adapter, max_new_tokens=4)

    assert strict.run("evaluate", keys) == 0, strict.log(keys).read_text()

    assert len(strict.lines(keys, ANSWERS)) == 5


def test_without_it_a_run_a_trial_and_a_baseline_name_the_rows(strict: Volume) -> None:
    plain = replace(MERGED, merge_system=False)
    run = strict.add_run("plain", options=plain)
    trial = strict.add_run("plain-trial", options=plain, trial=TrialLimits())
    baseline = strict.add_evaluation("plain")

    codes = [strict.run(*one) for one in (("train", run), ("trial", trial), ("evaluate", baseline))]

    assert codes == [10, 10, 10]
    for keys in (run, trial, baseline):
        result = strict.result(keys)
        assert result.outcome is Outcome.FAILED
        assert result.failure is not None
        assert "merge_system" in json.dumps(result.failure.message)
