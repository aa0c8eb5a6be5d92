"""The command line: what it prints, what it refuses in one sentence, and how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from sqlmodel import select
from typer.testing import CliRunner, Result

from tensorant_app import cli
from tensorant_app.db.runs import Run
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.domain.members import Caller, Role
from tensorant_app.domain.runs import RunState
from tensorant_app.services import runs
from tensorant_app.settings import get_settings
from tensorant_app.supervisor import hold_folder
from tests import factories
from tests.conftest import Clock
from tests.services.test_trials import make_trial

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def trial_id(owner: Caller) -> UUID:
    return make_trial(owner, name="Try")


@pytest.fixture
def owner(sqlite_database: str, clock: Clock) -> Caller:
    return factories.make_caller()


@pytest.fixture
def run_id(owner: Caller) -> UUID:
    run_id = factories.make_run(owner)
    with unit_of_work() as session:
        runs.launch_run(session, owner, run_id)
    return run_id


def member(owner: Caller, role: Role) -> str:
    return factories.make_caller(role, organization_id=owner.organization_id).name


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def refusal(*arguments: object) -> str:
    """The sentence that the command is refused with, which `main` prints before it ends with code 1."""
    result = call(*arguments)
    assert isinstance(result.exception, cli.TensorantError), result.output
    return result.exception.message


def tensorant(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tensorant_app.cli", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **env},
        cwd=ROOT,
        check=False,
    )


class TestTrials:
    def test_the_report_is_printed_with_what_is_missing(self, trial_id: UUID) -> None:
        output = call("runs", "show", trial_id).output

        assert output.startswith("Try, a small training trial, is completed.")
        assert "Full run, time: 13 min – 16 min (15 optimizer steps, 8 of 10 such runs)" in output
        assert "Full run, cost: $0.00 (at $0.00/h)" in output
        assert "Steps measured: 20 of 20 (80 training rows, the longest first)" in output
        assert "Neither a quality evaluation nor a quote." in output

    def test_its_full_draft_is_made_by_a_member(self, owner: Caller, trial_id: UUID) -> None:
        result = call("runs", "full-draft", trial_id, "--as", member(owner, Role.MEMBER))

        assert result.exit_code == 0, result.output
        with reading() as session:
            draft = session.exec(select(Run).where(Run.trial_id == trial_id)).one()
        assert (draft.name, draft.state) == ("Try full", RunState.DRAFT)
        assert str(draft.id) in result.output


class TestListing:
    def test_no_runs_are_told(self, owner: Caller) -> None:
        assert call("runs", "list").output == "There are no runs yet.\n"

    def test_each_run_is_a_line_that_can_be_copied(self, owner: Caller, run_id: UUID) -> None:
        result = call("runs", "list")

        assert result.exit_code == 0
        (line,) = [line for line in result.output.splitlines() if str(run_id) in line]
        assert line.split()[1:4] == ["First", "full", "queued"]

    @pytest.mark.parametrize("role", Role)
    def test_members_see_their_own_organizations_and_the_operator_all(
        self, owner: Caller, run_id: UUID, role: Role
    ) -> None:
        foreign = factories.make_run(factories.make_caller(name="Other"))

        own = call("runs", "list", "--as", member(owner, role)).output
        everything = call("runs", "list").output

        assert (str(run_id) in own, str(foreign) in own) == (True, False)
        assert (str(run_id) in everything, str(foreign) in everything) == (True, True)


class TestShowing:
    @pytest.mark.parametrize("role", [None, *Role])
    def test_state_settings_checks_and_events_are_shown(self, owner: Caller, run_id: UUID, role: Role | None) -> None:
        with unit_of_work() as session:
            run = session.get_one(Run, run_id)
            run.findings = [{"check": "plan", "verdict": "pass", "sentence": "30 optimizer steps."}]
            run.sentence = "It waits for a slot."

        result = call("runs", "show", run_id, *(["--as", member(owner, role)] if role else []))

        assert result.exit_code == 0
        assert result.output.startswith("First is queued. It waits for a slot.\n")
        assert "  epochs = 3\n" in result.output
        assert "  check plan: pass. 30 optimizer steps.\n" in result.output
        assert "  12:00:00 enqueue (member) -> queued\n" in result.output

    def test_a_run_that_does_not_exist_is_told(self, owner: Caller) -> None:
        unknown = uuid4()

        assert refusal("runs", "show", unknown) == f"There is no run {unknown} here."

    def test_another_organizations_run_is_as_if_it_did_not_exist(self, run_id: UUID) -> None:
        stranger = factories.make_caller(name="Other").name

        assert refusal("runs", "show", run_id, "--as", stranger) == f"There is no run {run_id} here."

    def test_what_is_no_id_is_told(self, owner: Caller) -> None:
        result = call("runs", "show", "first")

        assert result.exit_code == 2
        assert "UUID" in result.output

    def test_an_address_of_nobody_is_told(self, run_id: UUID) -> None:
        assert refusal("runs", "show", run_id, "--as", "x@y.example") == (
            "Nobody is a member under the address x@y.example."
        )


class TestCancelling:
    @pytest.mark.parametrize("role", [None, Role.MEMBER, Role.ADMIN, Role.OWNER])
    def test_who_may_stop_it_stops_it(self, owner: Caller, run_id: UUID, role: Role | None) -> None:
        name = member(owner, role) if role else "operator"

        result = call("runs", "cancel", run_id, *(["--as", name] if role else []))

        assert (result.exit_code, result.output) == (0, "Cancelled; its machine is being given back.\n")
        assert (load(run_id).state, load(run_id).sentence) == (RunState.CANCELLED, f"Cancelled by {name}.")

    def test_a_viewer_may_not(self, owner: Caller, run_id: UUID) -> None:
        sentence = refusal("runs", "cancel", run_id, "--as", member(owner, Role.VIEWER))

        assert sentence == "Your role (viewer) may not stop this. Ask an admin or the owner."
        assert load(run_id).state is RunState.QUEUED

    def test_a_stranger_may_not(self, run_id: UUID) -> None:
        stranger = factories.make_caller(name="Other").name

        assert refusal("runs", "cancel", run_id, "--as", stranger) == f"There is no run {run_id} here."
        assert load(run_id).state is RunState.QUEUED

    def test_a_second_time_is_told(self, run_id: UUID) -> None:
        call("runs", "cancel", run_id)

        assert refusal("runs", "cancel", run_id) == "This run is cancelled: it cannot cancel now."


class TestAsAProcess:
    def test_a_refusal_is_one_sentence_and_code_one(self, owner: Caller) -> None:
        done = tensorant("runs", "show", str(UUID(int=7)))

        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"There is no run {UUID(int=7)} here.\n"

    def test_a_database_without_tables_is_one_sentence(self, data_dir: Path) -> None:
        get_settings()
        done = tensorant("runs", "list")

        assert done.returncode == 1
        assert done.stderr.startswith("The database is at version nothing, this program needs")
        assert len(done.stderr.splitlines()) == 1

    def test_a_database_that_does_not_answer_is_one_sentence(self, data_dir: Path) -> None:
        done = tensorant("runs", "list", TENSORANT_DATABASE_URL="postgresql://ann:secret@127.0.0.1:1/none")

        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
        assert "does not answer" in done.stderr
        assert "secret" not in done.stderr

    @pytest.mark.parametrize("command", ["demo", "up"])
    def test_a_folder_that_is_held_is_one_sentence(self, data_dir: Path, command: str) -> None:
        get_settings()
        with hold_folder(data_dir):
            done = tensorant(command)

        assert done.returncode == 1
        assert done.stderr.splitlines()[-1].startswith(
            f"Tensorant is running on {data_dir} already (process {os.getpid()}): stop it with `tensorant down`"
        )
        assert "Traceback" not in done.stderr

    def test_nothing_to_stop_is_told(self, data_dir: Path) -> None:
        get_settings()
        done = tensorant("down")

        assert (done.returncode, done.stdout) == (0, "Nothing is running here.\n")


class TestDoctor:
    @pytest.fixture(autouse=True)
    def _trainer(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sqlite_database: str) -> None:
        answer = {"ok": True, "device": "cpu", "versions": {"torch": "2.13.0"}}
        python = tmp_path / "python"
        python.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
        python.chmod(0o755)
        monkeypatch.setenv("TENSORANT_TRAINER_PYTHON", str(python))
        get_settings.cache_clear()

    def test_all_is_well(self) -> None:
        result = call("doctor")

        assert result.exit_code == 0
        lines = result.output.splitlines()
        assert [line.partition(":")[0] for line in lines] == [
            "ok  versions",
            "ok  data folder",
            "ok  database",
            "ok  provider",
            "ok  redis",
            "ok  trainer",
            "ok  leftovers",
        ]

    def test_what_is_not_well_is_marked_and_ends_with_code_one(self, tmp_path: Path) -> None:
        (tmp_path / "python").write_text("#!/bin/sh\necho 'No module named torch' >&2\nexit 1\n")

        result = call("doctor")

        assert result.exit_code == 1
        (bad,) = [line for line in result.output.splitlines() if line.startswith("BAD")]
        assert bad.startswith("BAD trainer: The trainer cannot train with")


def load(run_id: UUID) -> Run:
    with reading() as session:
        return session.get_one(Run, run_id)


def test_the_operator_switches_machine_types_and_rotates_keys(sqlite_database: str) -> None:
    before = get_settings().read_secret_keys()

    off = call("admin", "gpus", "off", "NVIDIA H100 NVL", "--sentence", "Not in our plan.")
    listed = call("admin", "gpus", "list")
    on = call("admin", "gpus", "on", "NVIDIA H100 NVL")
    rotated = call("keys", "rotate")

    assert [done.exit_code for done in (off, listed, on, rotated)] == [0, 0, 0, 0]
    assert "Not in our plan." in listed.output
    assert "The old key is gone" in rotated.output
    assert get_settings().read_secret_keys() != before
    assert "not switched off" in refusal("admin", "gpus", "on", "NVIDIA L4")


class TestRecovering:
    def test_a_member_pauses_and_resumes_and_the_operator_may_not(self, owner: Caller, run_id: UUID) -> None:
        with unit_of_work() as session:
            session.get_one(Run, run_id).state = RunState.LAUNCHING

        assert "may not" in refusal("runs", "pause", run_id)
        assert call("runs", "pause", run_id, "--as", owner.name).exit_code == 0
        with reading() as session:
            assert session.get_one(Run, run_id).state is RunState.PAUSED
        assert call("runs", "resume", run_id, "--as", owner.name).exit_code == 0
        with reading() as session:
            assert session.get_one(Run, run_id).state is RunState.QUEUED

    def test_a_longer_limit_is_longer(self, owner: Caller, run_id: UUID) -> None:
        with unit_of_work() as session:
            session.get_one(Run, run_id).state = RunState.NEEDS_RECOVERY

        assert "above 6 h and at most 72 h" in refusal("runs", "extend", run_id, 5, "--as", owner.name)
        assert "12 h now" in call("runs", "extend", run_id, 12, "--as", owner.name).output

    def test_what_cannot_be_recovered_says_why(self, owner: Caller, run_id: UUID) -> None:
        assert "needs recovery" in refusal("runs", "verify", run_id, "--as", owner.name)
        assert "no machine" in refusal("runs", "confirm-absent", run_id, "--as", owner.name)

    def test_without_unknown_machines_it_says_so(self, owner: Caller) -> None:
        assert call("machines", "unknown").output == "There are no unknown machines.\n"
        assert "There is no unknown machine" in refusal("machines", "terminate", uuid4())
