"""What must hold at every moment, and what must hold when all faults are healed and everybody has tidied up."""

from __future__ import annotations

import hashlib
import logging
import traceback
import zipfile
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from uuid import UUID

from sqlmodel import select

from tensorant_app.db.accounts import StrayMachine
from tensorant_app.db.machines import Machine
from tensorant_app.db.organizations import Organization
from tensorant_app.db.runs import Adapter, Run
from tensorant_app.db.session import reading
from tensorant_app.db.spend import SpendEntry
from tensorant_app.domain.errors import ProviderError
from tensorant_app.domain.machines import HOLDS_SLOT, MachineReason
from tensorant_app.domain.runs import LIFECYCLE, RunState
from tensorant_app.services import recoveries, slots
from tensorant_app.services.connections import store
from tests.faults.site import EVERY, Site
from tests.faults.spoiling import Spoiler
from tests.runpod_emulator import Fault
from trainer.contract import MANIFEST, RESULT, Manifest, Outcome, Result, load


class Broken(AssertionError):
    """A promise that was not kept; the message begins with its name."""


def require(is_kept: bool, name: str, words: str) -> None:
    if not is_kept:
        raise Broken(f"{name}: {words}")


class Surprises(logging.Handler):
    """Jobs that failed for a reason that nobody foresaw; trouble with provider and disk is foreseen."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.told: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, (ProviderError, OSError)):
            place = traceback.extract_tb(error.__traceback__)[-1]
            self.told.append(
                f"{record.getMessage()}: {type(error).__name__}: {error} ({place.filename}:{place.lineno})"
            )


@dataclass(slots=True)
class Watch:
    """Compares the console with the provider's own books, again and again."""

    site: Site
    spoiler: Spoiler
    surprises: Surprises = field(default_factory=Surprises)
    adapters: dict[UUID, tuple[str, str]] = field(default_factory=dict)
    folders: dict[Path, str] = field(default_factory=dict)
    known_machines: set[UUID] = field(default_factory=set)
    _proved: set[UUID] = field(default_factory=set)
    most_slots: int = 2

    # At every moment.

    def look(self, *, is_settled: bool) -> None:
        """`is_settled`: the worker did all that was due, undisturbed."""
        require(not self.surprises.told, "no_surprise", "; ".join(self.surprises.told))
        rows = self._rows()
        self._asked_once(rows)
        self._slots(rows, is_settled=is_settled)
        self._adapters()
        self._words(rows)

    def _rows(self) -> list[Machine]:
        with reading() as session:
            return list(session.exec(select(Machine)))

    def _asked_once(self, rows: list[Machine]) -> None:
        for row in rows:
            asked = [one for one in self.site.account.asked if one.name == row.name]
            # An older front end refuses the exec form by name and is asked a second time in the older form.
            accepted = [one for one in asked if one.status != 422]
            require(len(accepted) <= 1, "asked_once", f"{row.name} was asked for {len(accepted)} times")

    def _slots(self, rows: list[Machine], *, is_settled: bool) -> None:
        with reading() as session:
            # In one moment with what is shown: workers in processes of their own go on meanwhile.
            holds = {row.name for row in session.exec(select(Machine)) if row.state in HOLDS_SLOT}
            view = slots.show_slots(session, self.site.console.caller)
            own = session.exec(select(Organization).where(Organization.id == self.site.console.caller.organization_id))
            self.most_slots = max(view.slots, own.one().run_slots)
        require(set(view.held_by) == holds, "slots", f"shown {view.held_by}, held {holds}")
        new = [row for row in rows if row.id not in self.known_machines]
        regular = [row for row in rows if row.state in HOLDS_SLOT and row.reason != MachineReason.CAME_BACK]
        if new and is_settled:
            require(len(regular) <= self.most_slots, "slots", f"{len(regular)} machines on {self.most_slots} slots")
        self.known_machines |= {row.id for row in new}
        by_name = {row.name: row for row in rows}
        for pod in self.site.account.alive():
            row = by_name.get(pod.name)
            if row is not None and is_settled and pod.id in self.site.boundary.listed:
                require(row.state in HOLDS_SLOT, "slots", f"{row.name} is {row.state} and its Pod is listed")

    def _adapters(self) -> None:
        with reading() as session:
            found = list(session.exec(select(Adapter)))
            runs = {run.id: run for run in session.exec(select(Run))}
        for row in found:
            content = hashlib.sha256(store().fetch(row.zip_key or "").read_bytes()).hexdigest()
            now = (str(row.zip_sha256), content)
            require(
                self.adapters.setdefault(row.run_id, now) == now, "adapter_kept", f"the adapter of {row.run_id} changed"
            )
            require(now[0] == now[1], "adapter_kept", f"the stored adapter of {row.run_id} is not what its row says")
            self._is_whole(row)
            require(
                row.attempt <= runs[row.run_id].attempt, "newest_heard", f"{row.run_id} has another attempt's adapter"
            )
        for manifest in self.site.volume.glob(f"runs/*/adapter/*/{MANIFEST}"):
            digest = _hash_folder(manifest.parent)
            if manifest.parent in self.spoiler.damaged:
                continue
            require(
                self.folders.setdefault(manifest.parent, digest) == digest,
                "adapter_kept",
                f"{manifest.parent} was written a second time",
            )
        for folder, _ in self.folders.items():
            require(folder.is_dir(), "adapter_kept", f"{folder} is gone")

    def _is_whole(self, row: Adapter) -> None:
        """What people download is what its manifest promises."""
        if row.id in self._proved:
            return
        with zipfile.ZipFile(store().fetch(row.zip_key or "")) as archive:
            manifest = load(Manifest, archive.read(MANIFEST).decode())
            for name, entry in manifest.files.items():
                digest = hashlib.sha256(archive.read(name)).hexdigest()
                require(
                    digest == entry.sha256, "adapter_whole", f"{name} of {row.run_id} is not what its manifest says"
                )
        self._proved.add(row.id)

    def _words(self, rows: list[Machine]) -> None:
        """Nobody believes another machine's, or another attempt's, words."""
        for row in rows:
            heard = [value for value in (row.status, row.result) if value]
            is_own = all((value["machine"], value["attempt"]) == (row.name, row.attempt) for value in heard)
            require(is_own, "newest_heard", f"{row.name} believes another machine's words")

    # At the end.

    def finish(self, *, sought: Collection[str] = ()) -> None:
        """`sought`: machines that are looked for, and never were."""
        self._nothing_alive([row for row in self._rows() if row.name not in sought])
        self._trained_once()
        self._nothing_lost()

    def everybody_can_act(self) -> None:
        """Healed and quiet, before anybody tidies up."""
        with reading() as session:
            runs = list(session.exec(select(Run)))
            shown = {run.id: recoveries.show_recovery(session, self.site.console.caller, run.id) for run in runs}
            slots_view = slots.show_slots(session, self.site.console.caller)
        for run in runs:
            waits = run.state is RunState.QUEUED and (slots_view.held_by or run.not_before)
            rests = run.state in LIFECYCLE.final or run.state in _RESTS
            checks = shown[run.id].checking and (shown[run.id].confirm_absent is None or shown[run.id].machine_ids)
            works = run.state in {RunState.EVALUATING} or self._is_unheard(run)
            require(
                bool(rests or waits or checks or works),
                "can_act",
                f"{run.id} is {run.state} ({run.sentence}) and nobody can do anything",
            )

    def _is_unheard(self, run: Run) -> bool:
        """Its machine's result cannot be read, so that it ends with its time."""
        path = self.site.volume / f"runs/{run.id}/out/{run.attempt}/{RESULT}"
        is_in_time = run.state not in LIFECYCLE.final and (run.runtime_limit_hours or 0) > RESTED_HOURS
        return path in self.spoiler.torn and is_in_time

    def nobody_is_unknown(self, *, for_seconds: float) -> None:
        """Healed, and swept since: every machine that was listed for so long is a live row's, or shown to people."""
        with reading() as session:
            strays = set(session.exec(select(StrayMachine.provider_id).where(StrayMachine.gone_at == None)))  # noqa: E711
        live = {row.name for row in self._rows() if row.state in HOLDS_SLOT}
        now = self.site.clock()
        for pod in self.site.account.alive():
            before = now - timedelta(seconds=for_seconds)
            is_listed = pod.created <= before and pod.is_shown(before) and pod.is_shown(now)
            is_known = pod.name in live or pod.id in strays
            require(is_known or not is_listed, "nothing_leaks", f"{pod.name} ({pod.id}) is alive, and nobody knows")

    def _nothing_alive(self, rows: list[Machine]) -> None:
        live = {row.name for row in rows if row.state in HOLDS_SLOT}
        require(not live, "nothing_leaks", f"{live} never came to an end")
        require(not self.site.account.alive(), "nothing_leaks", "machines are alive after everybody tidied up")

    def spend_is_the_bill(self) -> None:
        """What the ledger says of every machine that the console ever heard of, to the millionth."""
        with reading() as session:
            booked: defaultdict[UUID, int] = defaultdict(int)
            for entry in session.exec(select(SpendEntry)):
                booked[entry.machine_id] += entry.amount.micros
        for row in self._rows():
            ids = {*row.billed_ids, *row.provider_ids}
            billed = sum((self.site.account.bill(pod_id) for pod_id in ids), Decimal(0))
            require(
                booked[row.id] == int(billed * 1_000_000),
                "spend",
                f"{row.name}: {booked[row.id]} booked, {billed} billed",
            )

    def _trained_once(self) -> None:
        """No step is trained again but those after the last checkpoint."""
        if not self.site.has_volume:
            return  # What a machine made is gone with its disk.
        twins = {name for fault, _, name in self.site.account.faults.fired if fault is Fault.TWIN}
        beside_twins = {one.subject_id for one in self.site.script.trained if one.machine in twins}
        reached: dict[str, int] = {}
        for one in self.site.script.trained:
            if one.subject_id in beside_twins:
                continue  # Two machines came of one call: nobody can keep both from working.
            kept = reached.get(one.subject_id, 0) // EVERY * EVERY
            require(
                one.first >= kept, "trained_once", f"{one.machine} (start {one.boot}) began at {one.first}, not {kept}"
            )
            reached[one.subject_id] = max(one.last, reached.get(one.subject_id, 0))

    def _nothing_lost(self) -> None:
        with reading() as session:
            runs = list(session.exec(select(Run)))
            has_adapter = set(session.exec(select(Adapter.run_id)))
        for run in runs:
            if run.state is not RunState.FAILED or run.id in has_adapter or run.ended_at is None:
                continue
            path = self.site.volume / f"runs/{run.id}/out/{run.attempt}/{RESULT}"
            folder = self.site.volume / f"runs/{run.id}/adapter/{run.attempt}"
            if path in self.spoiler.torn or folder in self.spoiler.damaged:
                continue
            result = load(Result, path.read_text()) if path.exists() else None
            is_done = result is not None and result.outcome is Outcome.DONE
            # One that was given up before, and whose machine could not be deleted for a while, may finish all the same.
            was_done = is_done and result is not None and datetime.fromisoformat(result.at) < run.ended_at
            require(not was_done, "adapter_lost", f"{run.id} failed ({run.sentence}) with its adapter done")


RESTED_HOURS = 0.75
"""How long a history rests, at most, before everybody must be able to act."""
_RESTS = frozenset({RunState.DRAFT, RunState.PAUSED, RunState.NEEDS_RECOVERY, RunState.ADAPTER_READY})


def _hash_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        if not path.name.startswith("."):
            digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()
