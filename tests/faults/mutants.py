"""Planted faults, one for each promise at least: a campaign that does not catch them proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from sqlmodel import select

from tensorant_app.db.session import now_of, unit_of_work
from tensorant_app.domain.errors import Unknown
from tensorant_app.domain.machines import MachineState
from tensorant_app.providers.runpod import RunPodProvider
from tensorant_app.services import machine_steps, machines, spend, training
from tensorant_app.services.connections import store
from trainer.contract import AttemptKeys


@dataclass(frozen=True, slots=True)
class Mutant:
    breaks: tuple[str, ...]
    """Names of promises, one of which must be found broken."""
    what: str
    plant: Callable[[ExitStack], None]


def _put(stack: ExitStack, target: str, value: Any) -> None:
    stack.enter_context(mock.patch(target, value))


def _asks_again(stack: ExitStack) -> None:
    before = RunPodProvider.create

    def create(self: RunPodProvider, request: Any) -> Any:
        try:
            return before(self, request)
        except Unknown:
            return before(self, request)

    stack.enter_context(mock.patch.object(RunPodProvider, "create", create))


def _asks_before_committing(stack: ExitStack) -> None:
    """The right to ask is written down after the call: a crash in between asks a second time."""
    before = RunPodProvider.create

    def take_ask(session: Any, machine_id: Any, *, may_ask_again: bool) -> bool:
        machine = session.get_one(machines.Machine, machine_id)
        is_asked = machine.state is MachineState.ASKED and machine.release_wanted_at is None
        return is_asked and machine.ask_sent_at is None

    def create(self: RunPodProvider, request: Any) -> Any:
        try:
            answer = before(self, request)
        except Exception:
            _note_asked(request.name)
            raise
        _note_asked(request.name)
        return answer

    _put(stack, "tensorant_app.services.machines.take_ask", take_ask)
    stack.enter_context(mock.patch.object(RunPodProvider, "create", create))


def _note_asked(name: str) -> None:
    with unit_of_work() as session:
        row = session.exec(select(machines.Machine).where(machines.Machine.name == name)).one()
        row.ask_sent_at = row.ask_sent_at or now_of(session)


def _believes_the_delete(stack: ExitStack) -> None:
    before, before_steps = machines.note_release_sent, machines.take_all

    def note(session: Any, machine_id: Any, *, problem: str | None, rules: Any, was_known: bool = False) -> None:
        before(session, machine_id, problem=problem, rules=rules, was_known=was_known)
        machine = session.get_one(machines.Machine, machine_id)
        if problem is None and machine.state in {MachineState.RELEASING, MachineState.RELEASE_FAILED}:
            machine_steps.take(session, machine, machines.Move("confirm"))

    def steps(session: Any, machine: Any, *given: Any, **more: Any) -> None:
        if machine.state is not MachineState.RELEASED:  # The look from before the delete is not asked.
            before_steps(session, machine, *given, **more)

    _put(stack, "tensorant_app.services.machines.note_release_sent", note)
    _put(stack, "tensorant_app.services.machines.take_all", steps)
    _put(stack, "tensorant_app.services.accounts._take_back", lambda *given: None)
    _put(stack, "tensorant_app.services.strays._why_gone", lambda row, now: None)


def _forgets_the_sweep(stack: ExitStack) -> None:
    from tensorant_app.services.strays import Sweep

    _put(stack, "jobs.accounts.strays.sort_out", lambda *given: Sweep((), ()))
    _put(stack, "tensorant_app.services.accounts._take_back", lambda *given: None)


def _never_corrects_the_bill(stack: ExitStack) -> None:
    before = spend.corrections

    def corrections(booked: Any, billed: Any) -> Any:
        return {hour: amount for hour, amount in before(booked, billed).items() if hour not in booked}

    _put(stack, "tensorant_app.services.spend.corrections", corrections)


def _forgets_twins_on_the_bill(stack: ExitStack) -> None:
    before = spend.read_task

    def read_task(session: Any, machine_id: Any) -> Any:
        task = before(session, machine_id)
        return replace(task, provider_ids=list(task.provider_ids)[:1]) if task else None

    _put(stack, "tensorant_app.services.spend.read_task", read_task)


def _one_folder_for_all_attempts(stack: ExitStack) -> None:
    before = AttemptKeys.of

    def of(use: str, subject_id: str, attempt: int) -> AttemptKeys:
        own = before(use, subject_id, attempt)
        return AttemptKeys(own.inputs, before(use, subject_id, 1).outputs, before(use, subject_id, 1).adapter)

    stack.enter_context(mock.patch.object(AttemptKeys, "of", staticmethod(of)))
    _put(stack, "tensorant_app.services.machine_views._read", _read_whatever_lies_there)


def _read_whatever_lies_there(volume: Any, key: str, cls: Any, machine: Any) -> Any:
    from trainer.contract import load

    if volume.size(key) is None:
        return None
    with volume.open(key) as file:
        return load(cls, file.read().decode())


def _begins_at_the_first_step(stack: ExitStack) -> None:
    before = training.job_of
    _put(
        stack,
        "tensorant_app.services.training.job_of",
        lambda task, order, base: replace(before(task, order, base), resume_from=()),
    )


def _tells_nobody(stack: ExitStack) -> None:
    """The machine changes and its run is not woken; nothing derives the promise anew."""
    for module in ("machines", "machine_steps", "accounts", "strays"):
        _put(stack, f"tensorant_app.services.{module}.tell_user", lambda *given: None)
    _put(stack, "tensorant_app.services.runs.promise_all", lambda session: None)


def _fails_what_is_finished(stack: ExitStack) -> None:
    """A machine that goes after its work was done is taken for lost, before anybody looks for its result."""
    _put(stack, "tensorant_app.services.machine_views.read_report", lambda volume, machine: (None, None))
    _put(stack, "tensorant_app.services.machines.read_report", lambda volume, machine: (None, None))


def _gives_slots_away(stack: ExitStack) -> None:
    _put(stack, "tensorant_app.services.slots.has_turn", lambda *given, **more: True)


def _touches_the_adapter(stack: ExitStack) -> None:
    """Whoever looks at a finished adapter writes its file again."""
    before = training.score_adapter

    def score(session: Any, run_id: Any) -> None:
        before(session, run_id)
        for attempt in range(1, 6):
            path = store().fetch(f"adapters/{run_id}-{attempt}.zip")
            if path.exists():
                path.write_bytes(path.read_bytes() + b"again")

    _put(stack, "tensorant_app.services.training.score_adapter", score)


def _believes_any_adapter(stack: ExitStack) -> None:
    """The manifest is read, and nobody hashes what it names: neither on the way nor when it has come."""
    from tensorant_app.providers.storage_s3 import S3Store
    from trainer.contract import MANIFEST, Manifest, load

    def read(folder: Any) -> Manifest:
        return load(Manifest, (folder / MANIFEST).read_text())

    def take(self: S3Store, key: str, target: Any, wanted: Any) -> None:
        self._take(key, target)

    _put(stack, "tensorant_app.services.adapters.verify_folder", read)
    stack.enter_context(mock.patch.object(S3Store, "_take_named", take))


def _never_rests(stack: ExitStack) -> None:
    _put(stack, "tensorant_app.services.accounts.next_poll", lambda known, now, pause: now)


def _stumbles(stack: ExitStack) -> None:
    def stumble(*given: Any) -> None:
        raise KeyError("nobody thought of it")

    _put(stack, "tensorant_app.services.machines.note_answer_lost", stumble)


MUTANTS: dict[str, Mutant] = {
    "asks-again": Mutant(("asked_once",), "A lost answer is followed by another create call.", _asks_again),
    "asks-uncommitted": Mutant(
        ("asked_once",), "The create call is made before its right is written down.", _asks_before_committing
    ),
    "believes-delete": Mutant(
        ("slots", "nothing_leaks"), "A delete that was taken counts as proof.", _believes_the_delete
    ),
    "no-sweep": Mutant(("nothing_leaks", "slots"), "Nobody looks for machines that no row knows.", _forgets_the_sweep),
    "slots-for-all": Mutant(("slots",), "Nobody waits for a slot.", _gives_slots_away),
    "no-corrections": Mutant(("spend",), "An hour that was booked is never corrected.", _never_corrects_the_bill),
    "one-id-billed": Mutant(("spend",), "Of several machines of one name one is paid for.", _forgets_twins_on_the_bill),
    "one-folder": Mutant(
        ("adapter_kept", "newest_heard", "trained_once"),
        "All attempts write to one folder, and whatever lies there is believed.",
        _one_folder_for_all_attempts,
    ),
    "no-resume": Mutant(("trained_once",), "A next attempt begins at the first step.", _begins_at_the_first_step),
    "deaf-to-results": Mutant(
        ("adapter_lost", "can_act"), "Nobody reads what a machine left on the volume.", _fails_what_is_finished
    ),
    "touches-adapter": Mutant(
        ("adapter_kept",), "A stored adapter is written again, and differs.", _touches_the_adapter
    ),
    "any-adapter": Mutant(
        ("adapter_whole",), "An adapter is taken without a look at its bytes.", _believes_any_adapter
    ),
    "never-rests": Mutant(("comes_to_rest",), "A look is due as soon as it was made.", _never_rests),
    "stumbles": Mutant(("no_surprise",), "A job fails for a reason that nobody foresaw.", _stumbles),
    "tells-nobody": Mutant(("can_act",), "A run is not told what became of its machine.", _tells_nobody),
}


@contextmanager
def planted(name: str | None) -> Iterator[None]:
    with ExitStack() as stack:
        if name is not None:
            MUTANTS[name].plant(stack)
        yield
