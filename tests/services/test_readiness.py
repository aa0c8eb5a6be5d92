"""Every readiness check passes for a run that can start, and refuses for a real cause, all of them at once."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from tensorant_app.db.datasets import DatasetVersion
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.errors import AuthFailed
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.hyperparameters import RunSettings
from tensorant_app.domain.members import Caller
from tensorant_app.domain.money import FREE
from tensorant_app.domain.readiness import RENTED_ONLY, Check, Finding, Verdict
from tensorant_app.domain.versions import VersionState
from tensorant_app.providers.base import Offer
from tensorant_app.services import plans, readiness
from tensorant_app.services.readiness import check_run, check_trainer, read_subject
from tensorant_app.settings import get_settings
from tests import factories
from tests.conftest import NOON, Clock
from tests.fakes import FakeProvider
from tests.plain_base import make_plain_base

GOOD = {"ok": True, "device": "cpu", "versions": {"torch": "2.13.0"}}
GIB = 1024**3


class Ground:
    """A run whose every check passes, until a test spoils something."""

    def __init__(self, caller: Caller, run_id: UUID, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.caller, self.run_id, self.folder, self.monkeypatch = caller, run_id, folder, monkeypatch
        self.provider = FakeProvider()
        monkeypatch.setattr(readiness, "provider_for", lambda session, organization_id: self.provider)
        self.base = get_settings().bases_dir / "tiny"
        make_plain_base(self.base)
        self.trainer_answers(GOOD)

    def trainer_answers(self, answer: object, *, errors: str = "", code: int = 0) -> None:
        """Each question leaves a line in `asked`."""
        text = answer if isinstance(answer, str) else json.dumps(answer)
        (self.folder / "answer").write_text(text)
        (self.folder / "errors").write_text(errors)
        python = self.folder / "python"
        python.write_text(
            f"#!/bin/sh\necho asked >> {self.folder}/asked\ncat {self.folder}/errors >&2\n"
            f"cat {self.folder}/answer\nexit {code}\n"
        )
        python.chmod(0o755)
        self.use_python(python)

    def use_python(self, python: Path) -> None:
        self.monkeypatch.setenv("TENSORANT_TRAINER_PYTHON", str(python))
        get_settings.cache_clear()

    @property
    def times_asked(self) -> int:
        path = self.folder / "asked"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def change_run(self, **settings: Any) -> None:
        with unit_of_work() as session:
            run = session.get_one(Run, self.run_id)
            run.settings = {**run.settings, **settings}

    def change_report(self, **report: Any) -> None:
        with unit_of_work() as session:
            version = session.get_one(DatasetVersion, session.get_one(Run, self.run_id).version_id)
            assert version.report is not None
            mask = {**version.report["mask"], **report.pop("mask", {})}
            version.report = {**version.report, **report, "mask": mask}

    def change_baseline(self, **values: Any) -> None:
        with unit_of_work() as session:
            baseline = session.get_one(Evaluation, session.get_one(Run, self.run_id).baseline_id)
            for name, value in values.items():
                setattr(baseline, name, value)

    def check(self) -> dict[Check, Finding]:
        with reading() as session:
            subject = read_subject(session, self.run_id)
        return {finding.check: finding for finding in check_run(subject, NOON)}

    def refused(self) -> dict[Check, str]:
        return {check: found.sentence for check, found in self.check().items() if found.verdict is Verdict.REFUSE}


@pytest.fixture
def ground(caller: Caller, clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ground:
    return Ground(caller, factories.make_run(caller), tmp_path, monkeypatch)


def test_a_run_that_can_start_passes_every_check_there_is(ground: Ground) -> None:
    findings = ground.check()

    assert set(findings) == set(Check) - RENTED_ONLY - {Check.SAFETY_LOOK}
    assert {finding.verdict for finding in findings.values()} == {Verdict.PASS}
    assert all(finding.sentence.endswith(".") for finding in findings.values())


# Each spoils one thing, and names the check that must refuse with a part of its sentence.


def lock_volume(ground: Ground) -> None:
    get_settings().volume_dir.rename(ground.folder / "elsewhere")
    get_settings().volume_dir.write_text("a file where the folder was")


def fill_disk(ground: Ground) -> None:
    ground.monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=1_000))


def take_memory(ground: Ground) -> None:
    offer = Offer("this-computer", "This computer", 3 * GIB, FREE)
    ground.monkeypatch.setattr(FakeProvider, "offers", lambda self: [offer])


def lose_key(ground: Ground) -> None:
    def offers(self: FakeProvider) -> Sequence[Offer]:
        raise AuthFailed("The key does not work. Save another one.")

    ground.monkeypatch.setattr(FakeProvider, "offers", offers)


def offer_nothing(ground: Ground) -> None:
    ground.monkeypatch.setattr(FakeProvider, "offers", lambda self: [])


def remove_base(ground: Ground) -> None:
    shutil.rmtree(ground.base)


def damage_base(ground: Ground) -> None:
    with (ground.base / "model.safetensors").open("ab") as file:
        file.write(b"!")


def strip_template(ground: Ground) -> None:
    shutil.rmtree(ground.base)
    make_plain_base(ground.base, without=["chat_template.jinja"])


def thaw(ground: Ground) -> None:
    with unit_of_work() as session:
        version = session.get_one(DatasetVersion, session.get_one(Run, ground.run_id).version_id)
        version.state = VersionState.DRAFT


def compare_with_another_version(ground: Ground) -> None:
    with unit_of_work() as session:
        project = session.get_one(Project, session.get_one(Run, ground.run_id).project_id)
        other = factories.make_version(session, project)
    ground.change_baseline(version_id=other.id)


SPOILED: list[tuple[str, Callable[[Ground], None], Check, str]] = [
    ("volume", lock_volume, Check.STORAGE, "cannot be written"),
    ("disk", fill_disk, Check.SPACE, "are free. Free some space, lower the rank"),
    ("memory", take_memory, Check.MEMORY, "needs about 4.0 GiB of memory; 3.0 GiB are free. Close other programs"),
    ("key", lose_key, Check.COMPUTE, "The key does not work. Save another one."),
    ("stock", offer_nothing, Check.COMPUTE, "offers no machine now. Try again later."),
    ("base gone", remove_base, Check.BASE, "is not on this computer. Bring its folder back"),
    ("base damaged", damage_base, Check.BASE, "model.safetensors differs from its manifest. Fetch it again."),
    ("no template", strip_template, Check.BASE, "It has no chat template. Choose the instruct variant"),
    (
        "context",
        lambda ground: ground.change_run(context_length=4096),
        Check.BASE_FIT,
        "The context length 4,096 is more than the model's 2,048. Lower it.",
    ),
    (
        "long row",
        lambda ground: ground.change_report(mask={"longest": 3000}),
        Check.ROWS,
        "The longest row has 3,000 tokens and the context length is 2,048. Raise the context length",
    ),
    (
        "long rows by number",
        lambda ground: ground.change_report(
            mask={"longest": 3000, "longest_rows": [{"split": "train", "row": 5, "tokens": 3000}]}
        ),
        Check.ROWS,
        "1 row is longer than the context length of 2,048 tokens: 5 (train, 3,000). Raise the context length",
    ),
    ("draft", thaw, Check.VERSION, "The dataset version is draft. Freeze it first."),
    (
        "no test",
        lambda ground: ground.change_report(rows={"train": 80, "validation": 0, "test": 0}),
        Check.VERSION,
        "The version has no rows for validation and test. Split it differently.",
    ),
    (
        "no training",
        lambda ground: ground.change_report(rows={"train": 0, "validation": 1, "test": 1}),
        Check.VERSION,
        "The version has no rows for train.",
    ),
    (
        "secret",
        lambda ground: ground.change_report(safety=[{"row": 9}, {"row": 3}, {"row": 9}]),
        Check.SAFETY,
        "2 rows are refused by the safety check: 3, 9. Mend them and freeze again.",
    ),
    (
        "classifier that failed",
        lambda ground: ground.change_report(
            safety_check={"settings": "", "classifier": "failed", "sentence": "It was away.", "rows": 0}
        ),
        Check.SAFETY_LOOK,
        "The safety check is not done. It was away. Look through the version again.",
    ),
    (
        "other safety settings",
        lambda ground: ground.change_report(
            safety_check={"settings": "before", "classifier": "unasked", "sentence": "", "rows": 0}
        ),
        Check.SAFETY_LOOK,
        "The safety settings have changed since the version was looked through. Look through it again.",
    ),
    (
        "other baseline",
        compare_with_another_version,
        Check.BASELINE,
        "needs a completed baseline of this version and base revision",
    ),
    (
        "other revision",
        lambda ground: ground.change_baseline(base_revision="b" * 40),
        Check.BASELINE,
        "needs a completed baseline of this version and base revision",
    ),
    *(
        (
            f"baseline {state}",
            lambda ground, state=state: ground.change_baseline(state=state),
            Check.BASELINE,
            "needs a completed baseline",
        )
        for state in EvaluationState
        if state is not EvaluationState.COMPLETED
    ),
    (
        "no torch",
        lambda ground: ground.trainer_answers("", errors="ModuleNotFoundError: No module named 'torch'\n", code=1),
        Check.TRAINER,
        "ModuleNotFoundError: No module named 'torch'. Mend that, or name another Python",
    ),
    (
        "no step",
        lambda ground: ground.trainer_answers({"ok": False, "error": "The GPU is too old."}, code=1),
        Check.TRAINER,
        "The GPU is too old. Mend that, or name another Python",
    ),
    ("no answer", lambda ground: ground.trainer_answers(""), Check.TRAINER, "it ended with code 0 and no answer"),
    ("odd answer", lambda ground: ground.trainer_answers("3"), Check.TRAINER, "it ended with code 0 and no answer"),
    ("no python", lambda ground: ground.use_python(Path("/nowhere/python")), Check.TRAINER, "No such file"),
]


@pytest.mark.parametrize(("spoil", "check", "sentence"), [one[1:] for one in SPOILED], ids=[one[0] for one in SPOILED])
def test_what_is_spoiled_is_refused_and_nothing_else(
    ground: Ground, spoil: Callable[[Ground], None], check: Check, sentence: str
) -> None:
    spoil(ground)

    refused = ground.refused()

    assert set(refused) == {check}
    assert sentence in refused[check]


def test_everything_that_refuses_is_named_at_once(ground: Ground) -> None:
    ground.change_run(context_length=4096)
    ground.change_report(mask={"longest": 5000}, safety=[{"row": 1}])
    ground.change_baseline(state=EvaluationState.FAILED)
    ground.trainer_answers({"ok": False, "error": "no"})
    fill_disk(ground)
    take_memory(ground)

    assert set(ground.refused()) == {
        Check.MEMORY,
        Check.SPACE,
        Check.BASE_FIT,
        Check.ROWS,
        Check.SAFETY,
        Check.BASELINE,
        Check.TRAINER,
    }


def test_without_its_base_the_rest_is_checked_all_the_same(ground: Ground) -> None:
    remove_base(ground)
    ground.change_baseline(state=EvaluationState.FAILED)

    findings = ground.check()

    assert set(Check) - RENTED_ONLY - set(findings) == {Check.MEMORY, Check.SPACE, Check.BASE_FIT, Check.SAFETY_LOOK}
    assert set(ground.refused()) == {Check.BASE, Check.BASELINE}


@pytest.mark.parametrize(("ratio", "verdict"), [(0.5, Verdict.PASS), (1.0, Verdict.WARN)])
def test_a_warm_up_as_long_as_the_training_warns_and_does_not_refuse(
    ground: Ground, ratio: float, verdict: Verdict
) -> None:
    # A draft's ratio is at most 0.5, so that today only a setting from elsewhere is warned of.
    with reading() as session:
        subject = replace(read_subject(session, ground.run_id), settings=RunSettings(warmup_ratio=ratio))

    (finding,) = [found for found in check_run(subject, NOON) if found.check is Check.PLAN]

    assert finding.verdict is verdict
    assert ("lower the warm-up ratio" in finding.sentence) is (verdict is Verdict.WARN)


class TestTheTrainersCheck:
    def test_a_good_answer_is_believed_for_a_quarter_of_an_hour(self, ground: Ground, clock: Clock) -> None:
        for minutes in (0, 14, 14.9):
            assert check_trainer(clock.at + _minutes(minutes)).verdict is Verdict.PASS
        assert ground.times_asked == 1

        check_trainer(clock.at + _minutes(15))

        assert ground.times_asked == 2

    def test_a_bad_answer_is_asked_for_again_at_once(self, ground: Ground) -> None:
        ground.trainer_answers({"ok": False, "error": "no"})
        check_trainer(NOON)
        ground.trainer_answers(GOOD)

        assert check_trainer(NOON).verdict is Verdict.PASS
        assert ground.times_asked == 2

    def test_another_interpreter_is_asked_itself(self, ground: Ground) -> None:
        check_trainer(NOON)
        ground.use_python(Path("/nowhere/python"))

        assert check_trainer(NOON).verdict is Verdict.REFUSE

    def test_an_answer_of_a_clock_that_was_ahead_is_not_believed(self, ground: Ground) -> None:
        check_trainer(NOON + _minutes(60))
        check_trainer(NOON)

        assert ground.times_asked == 2

    @pytest.mark.parametrize("text", ["", "{", "[]", '{"python": 1}', '{"at": "never", "found": {}}'])
    def test_a_torn_memory_is_no_answer(self, ground: Ground, text: str) -> None:
        (get_settings().data_dir / "trainer-check.json").write_text(text)

        assert check_trainer(NOON).verdict is Verdict.PASS
        assert ground.times_asked == 1

    def test_a_disk_too_full_to_remember_it_changes_no_verdict(self, ground: Ground) -> None:
        def full(path: Path, text: str) -> None:
            raise OSError(28, "No space left on device")

        ground.monkeypatch.setattr(readiness, "write_file", full)

        assert check_trainer(NOON).verdict is Verdict.PASS

    def test_one_that_never_answers_is_refused(self, ground: Ground) -> None:
        ground.monkeypatch.setattr(readiness, "_TRAINER_SECONDS", 0.2)
        python = ground.folder / "python"
        python.write_text("#!/bin/sh\nexec sleep 60\n")

        finding = check_trainer(NOON)

        assert finding.verdict is Verdict.REFUSE
        assert "it did not answer within 0.2 seconds" in finding.sentence

    def test_an_interpreter_without_torch_is_refused_in_its_own_words(self, ground: Ground, tmp_path: Path) -> None:
        bare = tmp_path / "bare-python"
        bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
        bare.chmod(0o755)
        ground.monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parent.parent.parent))
        ground.use_python(bare)

        finding = check_trainer(NOON)

        assert finding.verdict is Verdict.REFUSE
        assert "No module named 'torch'" in finding.sentence


def test_the_trainers_options_are_the_runs_settings() -> None:
    settings = RunSettings(epochs=7, learning_rate=1e-5, packing=False)

    options = plans.options_of(settings)

    assert (options.epochs, options.learning_rate, options.packing) == (7, 1e-5, False)
    assert not hasattr(options, "maximum_runtime_hours")


def _minutes(count: float) -> timedelta:
    return timedelta(minutes=count)
