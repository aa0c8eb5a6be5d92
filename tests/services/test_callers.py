"""Who may do what: every service function that takes a caller, asked by every role and by a stranger."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlmodel import Session, select

from jobs import broker
from tensorant_app import services
from tensorant_app.db.accounts import StrayMachine
from tensorant_app.db.datasets import Dataset, DatasetVersion, Import
from tensorant_app.db.evaluations import Evaluation
from tensorant_app.db.machines import Machine
from tensorant_app.db.organizations import Member, Organization
from tensorant_app.db.projects import Project
from tensorant_app.db.runs import Adapter, AdapterUpload, Run
from tensorant_app.db.session import now_of, reading, unit_of_work
from tensorant_app.db.sessions import SignIn
from tensorant_app.domain import run_form
from tensorant_app.domain.connections import ConnectionKind
from tensorant_app.domain.errors import Forbidden, NotFound
from tensorant_app.domain.evaluations import EvaluationState
from tensorant_app.domain.imports import ImportState
from tensorant_app.domain.machines import MachineState, Use
from tensorant_app.domain.members import ALLOWED, OPERATOR_MAY, Caller, Permission, Role, operator
from tensorant_app.domain.runs import AdapterUploadState, RunPurpose, RunState
from tensorant_app.domain.sign_in import LinkKind
from tensorant_app.domain.splits import Fractions
from tensorant_app.domain.trials import TrialSettings
from tensorant_app.domain.versions import KEYS, VersionState
from tensorant_app.services import (
    accounts,
    adapter_uploads,
    baselines,
    bases,
    comparisons,
    connecting,
    datasets,
    deletions,
    downloads,
    drafts,
    edits,
    estimates,
    evaluations,
    examples,
    exports,
    gpus,
    import_previews,
    import_rows,
    imports,
    launches,
    links,
    logs,
    machine_actions,
    machines,
    metrics,
    offers,
    organizations,
    overview,
    previews,
    projects,
    recoveries,
    row_errors,
    run_details,
    run_list,
    runs,
    safety,
    samples,
    scorecards,
    scorings,
    sealing,
    sessions,
    slots,
    strays,
    tokens,
    trials,
    uploads,
    version_images,
    versions,
)
from tensorant_app.services.bases import BaseFacts
from tensorant_app.services.connections import find_connection, store
from tensorant_app.services.deletions import Deletable
from tensorant_app.services.image_files import THUMBNAILS
from tensorant_app.services.import_rows import Show, Which
from tensorant_app.settings import get_settings
from tests import factories
from tests.conftest import Clock
from tests.kept import Kept, rows
from tests.plain_base import REPO_ID as BASE_REPO_ID
from tests.plain_base import REVISION as BASE_REVISION
from tests.plain_base import make_plain_base
from tests.web.world import put_preview, put_rows
from trainer.contract import MASK, Base, Split

NOT_USE_CASES = {"audit.write_audit", "demo.draft", "demo.prepare", "demo.train", "lookup.hold_row", "lookup.own_row"}
"""What use cases are made of, or what is put together of them: each use case asks for its permission."""

DOWNLOAD = "downloads/some"
LEFT_OUT = Which(Show.LEFT_OUT)
FACTS = BaseFacts(Base("tests/tiny", "a" * 40, "/nowhere"), 1_000, 2048, "LlamaForCausalLM", ((8, 8),), 4_000)


@dataclass(frozen=True)
class World:
    """One thing of each kind in each state that a use case begins from, all of one organization."""

    owner: Caller
    organization_id: UUID
    project_id: UUID
    dataset_id: UUID
    receiving: UUID
    waiting: UUID
    """An upload whose first rows can be seen."""
    another: UUID
    """A second file that was read."""
    checking: UUID
    ready: UUID
    draft_version: UUID
    checked_version: UUID
    frozen_version: UUID
    baseline: UUID
    queued_evaluation: UUID
    draft_run: UUID
    queued_run: UUID
    failed_run: UUID
    scored_run: UUID
    finished_trial: UUID
    connection: UUID


@dataclass(frozen=True)
class Case:
    permission: Permission
    act: Callable[[Session, Caller, World], object]
    is_own: bool = False
    """A stranger's act concerns their own organization, so that there is nothing to refuse."""
    is_personal: bool = False
    """It concerns the member who asks; the operator is none."""


CASES: dict[str, Case] = {
    "connecting.list_connections": Case(Permission.SEE, lambda s, c, w: connecting.list_connections(s, c), is_own=True),
    "connecting.save_connection": Case(
        Permission.OWN,
        lambda s, c, w: connecting.save_connection(
            s, c, ConnectionKind.RUNPOD_COMPUTE, {"api_key": "rpa_0123456789abcdef"}
        ),
        is_own=True,
    ),
    "connecting.recheck_connection": Case(
        Permission.OWN, lambda s, c, w: connecting.recheck_connection(s, c, w.connection)
    ),
    "connecting.remove_connection": Case(
        Permission.OWN, lambda s, c, w: connecting.remove_connection(s, c, w.connection)
    ),
    "slots.set_slots": Case(Permission.ADMINISTER, lambda s, c, w: slots.set_slots(s, c, "3"), is_own=True),
    "projects.set_budget": Case(Permission.ADMINISTER, lambda s, c, w: projects.set_budget(s, c, w.project_id, "200")),
    "projects.show_budget": Case(Permission.SEE, lambda s, c, w: projects.show_budget(s, c, w.project_id)),
    "gpus.list_gpus": Case(Permission.SEE, lambda s, c, w: gpus.list_gpus(s, c, w.project_id, typed(w))),
    "gpus.complete_form": Case(Permission.SEE, lambda s, c, w: gpus.complete_form(s, c, w.project_id, typed(w))),
    "offers.note_looking": Case(
        Permission.SEE, lambda s, c, w: offers.note_looking(s, c, 2), is_own=True, is_personal=True
    ),
    "offers.refresh_offers": Case(
        Permission.PREPARE, lambda s, c, w: offers.refresh_offers(s, _connected(s, c), 2), is_own=True
    ),
    "offers.switch_off": Case(
        Permission.OPERATE, lambda s, c, w: offers.switch_off(s, c, "A100", "Not in our plan.", "")
    ),
    "offers.switch_on": Case(Permission.OPERATE, lambda s, c, w: offers.switch_on(s, c, "H100")),
    "offers.list_switched_off": Case(Permission.OPERATE, lambda s, c, w: offers.list_switched_off(s, c)),
    "comparisons.list_others": Case(Permission.SEE, lambda s, c, w: comparisons.list_others(s, c, w.frozen_version)),
    "comparisons.compare_versions": Case(
        Permission.SEE, lambda s, c, w: comparisons.compare_versions(s, c, _compared(s, w), w.frozen_version)
    ),
    "deletions.delete_version": Case(
        Permission.DECIDE, lambda s, c, w: deletions.delete_version(s, c, w.draft_version)
    ),
    "deletions.show_deletion": Case(
        Permission.SEE, lambda s, c, w: deletions.show_deletion(s, c, Deletable.VERSION, w.draft_version)
    ),
    "deletions.stored_in": Case(Permission.SEE, lambda s, c, w: deletions.stored_in(s, c, w.dataset_id)),
    "deletions.delete": Case(
        Permission.DECIDE, lambda s, c, w: deletions.delete(s, c, Deletable.VERSION, w.draft_version)
    ),
    "deletions.delete_dataset": Case(
        Permission.DECIDE, lambda s, c, w: deletions.delete_dataset(s, c, _unused_dataset(s, w.dataset_id))
    ),
    "deletions.delete_import": Case(
        Permission.DECIDE, lambda s, c, w: deletions.delete_import(s, c, _unused(s, w.receiving))
    ),
    "exports.export_version": Case(Permission.SEE, lambda s, c, w: exports.export_version(s, c, w.frozen_version)),
    "safety.show_settings": Case(
        Permission.SEE, lambda s, c, w: safety.show_settings(s, c), is_own=True, is_personal=True
    ),
    "safety.set_words": Case(Permission.ADMINISTER, lambda s, c, w: safety.set_words(s, c, "falcon"), is_own=True),
    "safety.set_address": Case(
        Permission.ADMINISTER, lambda s, c, w: safety.set_address(s, c, "https://a.example.com", "60"), is_own=True
    ),
    "safety.set_command": Case(
        Permission.OPERATE, lambda s, c, w: safety.set_command(s, c, w.organization_id, "/bin/true", "60")
    ),
    "safety.set_token": Case(Permission.ADMINISTER, lambda s, c, w: give_token(s, c), is_own=True),
    "safety.set_operators_token": Case(
        Permission.OPERATE, lambda s, c, w: give_operators_token(s, c, w.organization_id)
    ),
    "safety.set_private_address": Case(
        Permission.OPERATE,
        lambda s, c, w: safety.set_private_address(s, c, w.organization_id, "http://127.0.0.1:9/", "60"),
    ),
    "safety.check_again": Case(Permission.PREPARE, lambda s, c, w: safety.check_again(s, c, w.frozen_version)),
    "sealing.rotate_keys": Case(Permission.OPERATE, lambda s, c, w: sealing.rotate_keys(s, c)),
    "accounts.list_accounts": Case(Permission.SEE, lambda s, c, w: accounts.list_accounts(s, c), is_own=True),
    "adapter_uploads.cancel_any": Case(
        Permission.PREPARE, lambda s, c, w: adapter_uploads.cancel_any(s, c, _handed_in(s, w.queued_run))
    ),
    "adapter_uploads.finish_any": Case(
        Permission.PREPARE, lambda s, c, w: adapter_uploads.finish_any(s, c, _handed_in(s, w.queued_run))
    ),
    "adapter_uploads.show_any": Case(
        Permission.PREPARE, lambda s, c, w: adapter_uploads.show_any(s, c, _handed_in(s, w.queued_run))
    ),
    "adapter_uploads.show_uploaded": Case(
        Permission.SEE, lambda s, c, w: adapter_uploads.show_uploaded(s, c, w.queued_run)
    ),
    "adapter_uploads.start_adapter_upload": Case(
        Permission.SPEND,
        lambda s, c, w: adapter_uploads.start_adapter_upload(s, c, _in(s, w.queued_run, RunState.NEEDS_RECOVERY), 100),
    ),
    "baselines.list_baselines": Case(Permission.SEE, lambda s, c, w: baselines.list_baselines(s, c, w.project_id)),
    "bases.inspect_for": Case(
        Permission.PREPARE, lambda s, c, w: bases.inspect_for(c, BASE_REPO_ID, BASE_REVISION), is_own=True
    ),
    "bases.list_bases": Case(Permission.SEE, lambda s, c, w: bases.list_bases(c), is_own=True),
    "datasets.frozen_versions": Case(Permission.SEE, lambda s, c, w: datasets.frozen_versions(s, c, w.project_id)),
    "datasets.origin_of": Case(Permission.SEE, lambda s, c, w: datasets.origin_of(s, c, w.frozen_version)),
    "datasets.show_data": Case(Permission.SEE, lambda s, c, w: datasets.show_data(s, c, w.project_id)),
    "datasets.show_import_page": Case(Permission.SEE, lambda s, c, w: datasets.show_import_page(s, c, w.ready)),
    "downloads.adapter_zip": Case(Permission.SEE, lambda s, c, w: downloads.adapter_zip(s, c, w.scored_run)),
    "downloads.answers": Case(Permission.SEE, lambda s, c, w: downloads.answers(s, c, w.baseline)),
    "downloads.import_bad_rows": Case(Permission.SEE, lambda s, c, w: downloads.import_bad_rows(s, c, w.ready)),
    "downloads.import_errors": Case(Permission.SEE, lambda s, c, w: downloads.import_errors(s, c, w.ready)),
    "downloads.job_files": Case(Permission.SEE, lambda s, c, w: downloads.job_files(s, c, w.draft_run)),
    "drafts.copy_to_form": Case(Permission.PREPARE, lambda s, c, w: drafts.copy_to_form(s, c, w.draft_run)),
    "drafts.create_full_draft": Case(
        Permission.PREPARE, lambda s, c, w: drafts.create_full_draft(s, c, w.finished_trial)
    ),
    "drafts.create_retry_draft": Case(
        Permission.PREPARE, lambda s, c, w: drafts.create_retry_draft(s, c, w.failed_run)
    ),
    "drafts.forget_form": Case(Permission.PREPARE, lambda s, c, w: drafts.forget_form(s, c, w.project_id)),
    "drafts.keep_form": Case(Permission.PREPARE, lambda s, c, w: drafts.keep_form(s, c, w.project_id, typed(w))),
    "drafts.rename_run": Case(Permission.PREPARE, lambda s, c, w: drafts.rename_run(s, c, w.draft_run, "Other")),
    "drafts.save_form": Case(Permission.PREPARE, lambda s, c, w: drafts.save_form(s, c, w.project_id, typed(w))),
    "drafts.show_form": Case(Permission.SEE, lambda s, c, w: drafts.show_form(s, c, w.project_id)),
    "estimates.estimate_form": Case(
        Permission.SEE, lambda s, c, w: estimates.estimate_form(s, c, w.project_id, typed(w))
    ),
    "estimates.estimate_run": Case(Permission.SEE, lambda s, c, w: estimates.estimate_run(s, c, w.draft_run)),
    "launches.show_launch": Case(Permission.SPEND, lambda s, c, w: launches.show_launch(s, c, w.draft_run)),
    "links.link_for": Case(Permission.OPERATE, lambda s, c, w: links.link_for(s, c, w.owner.name, LinkKind.PASSWORD)),
    "logs.list_happenings": Case(Permission.SEE, lambda s, c, w: logs.list_happenings(s, c, w.queued_run)),
    "logs.read_evaluation_log": Case(
        Permission.SEE, lambda s, c, w: logs.read_evaluation_log(s, c, w.baseline, logs.Cursor())
    ),
    "logs.read_log": Case(Permission.SEE, lambda s, c, w: logs.read_log(s, c, w.scored_run, logs.Cursor())),
    "metrics.show_curves": Case(Permission.SEE, lambda s, c, w: metrics.show_curves(s, c, w.scored_run)),
    "organizations.find_organization": Case(
        Permission.OPERATE, lambda s, c, w: organizations.find_organization(s, c, str(w.organization_id))
    ),
    "organizations.has_password": Case(
        Permission.OPERATE, lambda s, c, w: organizations.has_password(s, c, w.owner.name)
    ),
    "organizations.list_members": Case(Permission.SEE, lambda s, c, w: organizations.list_members(s, c), is_own=True),
    "overview.show_overview": Case(Permission.SEE, lambda s, c, w: overview.show_overview(s, c, w.project_id)),
    "previews.read_form": Case(Permission.SEE, lambda s, c, w: previews.read_form(s, c, w.project_id, typed(w))),
    "projects.last_project": Case(Permission.SEE, lambda s, c, w: projects.last_project(s, c), is_own=True),
    "projects.list_projects": Case(Permission.SEE, lambda s, c, w: projects.list_projects(s, c), is_own=True),
    "projects.look_around": Case(Permission.SEE, lambda s, c, w: projects.look_around(s, c, w.project_id)),
    "projects.rename_project": Case(
        Permission.PREPARE, lambda s, c, w: projects.rename_project(s, c, w.project_id, "Other")
    ),
    "projects.show_project": Case(Permission.SEE, lambda s, c, w: projects.show_project(s, c, w.project_id)),
    "row_errors.group_errors": Case(Permission.SEE, lambda s, c, w: row_errors.group_errors(s, c, w.ready)),
    "row_errors.group_warnings": Case(Permission.SEE, lambda s, c, w: row_errors.group_warnings(s, c, w.ready)),
    "row_errors.rows_with": Case(Permission.SEE, lambda s, c, w: row_errors.rows_with(s, c, w.ready, "a")),
    "run_details.show_details": Case(
        Permission.SEE, lambda s, c, w: run_details.show_details(s, c, w.project_id, w.scored_run)
    ),
    "run_list.list_page": Case(
        Permission.SEE, lambda s, c, w: run_list.list_page(s, c, w.project_id, run_list.Asked())
    ),
    "scorecards.list_evaluations": Case(
        Permission.SEE, lambda s, c, w: scorecards.list_evaluations(s, c, w.project_id)
    ),
    "scorecards.list_rows": Case(Permission.SEE, lambda s, c, w: scorecards.list_rows(s, c, w.project_id, w.baseline)),
    "scorecards.show_scorecard": Case(
        Permission.SEE, lambda s, c, w: scorecards.show_scorecard(s, c, w.project_id, w.baseline)
    ),
    "sessions.end_session": Case(Permission.SEE, lambda s, c, w: end_own(s, c), is_own=True, is_personal=True),
    "sessions.list_sessions": Case(
        Permission.SEE, lambda s, c, w: sessions.list_sessions(s, c), is_own=True, is_personal=True
    ),
    "sessions.who_am_i": Case(Permission.SEE, lambda s, c, w: sessions.who_am_i(s, c), is_own=True, is_personal=True),
    "uploads.cancel_upload": Case(Permission.PREPARE, lambda s, c, w: uploads.cancel_upload(s, c, w.receiving)),
    "uploads.finish_upload": Case(Permission.PREPARE, lambda s, c, w: uploads.finish_upload(s, c, w.receiving)),
    "uploads.show_upload": Case(Permission.PREPARE, lambda s, c, w: uploads.show_upload(s, c, w.receiving)),
    "uploads.start_upload": Case(
        Permission.PREPARE, lambda s, c, w: uploads.start_upload(s, c, w.dataset_id, "new.jsonl", 1)
    ),
    "organizations.create_organization": Case(
        Permission.OPERATE, lambda s, c, w: organizations.create_organization(s, c, "New")
    ),
    "organizations.add_member": Case(
        Permission.OPERATE, lambda s, c, w: organizations.add_member(s, c, w.organization_id, "a@b.example", Role.OWNER)
    ),
    "projects.create_project": Case(
        Permission.PREPARE, lambda s, c, w: projects.create_project(s, c, "New", FACTS), is_own=True
    ),
    "imports.create_dataset": Case(
        Permission.PREPARE, lambda s, c, w: imports.create_dataset(s, c, w.project_id, "New")
    ),
    "imports.start_import": Case(
        Permission.PREPARE, lambda s, c, w: imports.start_import(s, c, w.dataset_id, "new.jsonl")
    ),
    "datasets.other_ready_imports": Case(Permission.SEE, lambda s, c, w: datasets.other_ready_imports(s, c, w.ready)),
    "edits.show_edits": Case(Permission.SEE, lambda s, c, w: edits.show_edits(s, c, w.ready)),
    "edits.leave_out": Case(Permission.PREPARE, lambda s, c, w: edits.leave_out(s, c, w.ready, [2])),
    "edits.put_back": Case(Permission.PREPARE, lambda s, c, w: edits.put_back(s, c, w.ready, [3])),
    "edits.change_row": Case(
        Permission.PREPARE,
        lambda s, c, w: edits.change_row(
            s, c, w.ready, 2, '{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}'
        ),
    ),
    "edits.append_file": Case(Permission.PREPARE, lambda s, c, w: edits.append_file(s, c, w.ready, w.another)),
    "edits.undo": Case(Permission.PREPARE, lambda s, c, w: edits.undo(s, c, w.ready)),
    "import_rows.list_rows": Case(Permission.SEE, lambda s, c, w: import_rows.list_rows(s, c, w.ready, Which())),
    "import_rows.find_rows": Case(Permission.SEE, lambda s, c, w: import_rows.find_rows(s, c, w.ready, LEFT_OUT)),
    "import_rows.show_row": Case(Permission.SEE, lambda s, c, w: import_rows.show_row(s, c, w.ready, 2)),
    "import_previews.show_preview": Case(Permission.SEE, lambda s, c, w: import_previews.show_preview(s, c, w.waiting)),
    "import_previews.start_reading": Case(
        Permission.PREPARE,
        lambda s, c, w: import_previews.start_reading(
            s, c, w.waiting, import_previews.Chosen("chat", {"messages": "messages"})
        ),
    ),
    "imports.await_person": Case(Permission.PREPARE, lambda s, c, w: imports.await_person(s, c, w.receiving)),
    "imports.check_import": Case(Permission.PREPARE, lambda s, c, w: imports.check_import(s, c, w.receiving)),
    "imports.cancel_import": Case(Permission.PREPARE, lambda s, c, w: imports.cancel_import(s, c, w.checking)),
    "imports.show_import": Case(Permission.SEE, lambda s, c, w: imports.show_import(s, c, w.ready)),
    "imports.read_errors": Case(Permission.SEE, lambda s, c, w: imports.read_errors(s, c, w.ready)),
    "projects.pin_prompts": Case(Permission.PREPARE, lambda s, c, w: projects.pin_prompts(s, c, w.project_id, "Hello")),
    "samples.show_samples": Case(Permission.SEE, lambda s, c, w: samples.show_samples(s, c, w.scored_run)),
    "trials.show_trial": Case(Permission.SEE, lambda s, c, w: trials.show_trial(s, c, w.finished_trial)),
    "versions.create_version": Case(
        Permission.PREPARE,
        lambda s, c, w: versions.create_version(s, c, w.ready, shares=Fractions(), seed=1, leave_out_rejected=True),
    ),
    "versions.check_version": Case(Permission.PREPARE, lambda s, c, w: versions.check_version(s, c, w.draft_version)),
    "versions.cancel_check": Case(
        Permission.PREPARE, lambda s, c, w: versions.cancel_check(s, c, _being_checked(s, w.draft_version))
    ),
    "versions.freeze_version": Case(
        Permission.PREPARE, lambda s, c, w: versions.freeze_version(s, c, w.checked_version)
    ),
    "versions.show_version": Case(Permission.SEE, lambda s, c, w: versions.show_version(s, c, w.draft_version)),
    "import_rows.find_thumbnail": Case(
        Permission.SEE,
        lambda s, c, w: import_rows.find_thumbnail(s, c, _with_picture(w.ready), _IMAGE),
    ),
    "version_images.find_thumbnail": Case(
        Permission.SEE,
        lambda s, c, w: version_images.find_thumbnail(s, c, _with_thumbnail(s, w.frozen_version), _IMAGE),
    ),
    "tokens.show_tokens": Case(Permission.SEE, lambda s, c, w: tokens.show_tokens(s, c, w.frozen_version)),
    "examples.read_tokens": Case(
        Permission.SEE, lambda s, c, w: examples.read_tokens(s, c, w.frozen_version, Split.TEST, 1)
    ),
    "examples.search_page": Case(
        Permission.SEE, lambda s, c, w: examples.search_page(s, c, w.frozen_version, Split.TEST, "Hi")
    ),
    "examples.count_matches": Case(
        Permission.SEE, lambda s, c, w: examples.count_matches(s, c, w.frozen_version, Split.TEST, "Hi")
    ),
    "examples.read_page": Case(
        Permission.SEE, lambda s, c, w: examples.read_page(s, c, w.frozen_version, Split.TEST, start=9)
    ),
    "evaluations.create_baseline": Case(
        Permission.SPEND, lambda s, c, w: evaluations.create_baseline(s, c, w.frozen_version)
    ),
    "scorings.show_scoring": Case(Permission.SPEND, lambda s, c, w: scorings.show_scoring(s, c, w.project_id, {})),
    "scorings.show_adapter_scoring": Case(
        Permission.SPEND, lambda s, c, w: scorings.show_adapter_scoring(s, c, _ready(s, w.scored_run), {})
    ),
    "scorings.score_base": Case(
        Permission.SPEND, lambda s, c, w: scorings.score_base(s, c, w.frozen_version, {"provider": "local"})
    ),
    "scorings.score_adapter": Case(
        Permission.SPEND, lambda s, c, w: scorings.score_adapter(s, c, _ready(s, w.scored_run), {"provider": "local"})
    ),
    "evaluations.cancel_evaluation": Case(
        Permission.STOP, lambda s, c, w: evaluations.cancel_evaluation(s, c, w.queued_evaluation)
    ),
    "evaluations.show_evaluation": Case(Permission.SEE, lambda s, c, w: evaluations.show_evaluation(s, c, w.baseline)),
    "machine_actions.confirm_evaluation_absent": Case(
        Permission.SPEND,
        lambda s, c, w: machine_actions.confirm_evaluation_absent(s, c, _checked(s, w.queued_evaluation)),
    ),
    "machine_actions.confirm_run_absent": Case(
        Permission.SPEND, lambda s, c, w: machine_actions.confirm_run_absent(s, c, _checked(s, w.queued_run))
    ),
    "recoveries.extend_run": Case(
        Permission.SPEND,
        lambda s, c, w: recoveries.extend_run(s, c, _in(s, w.queued_run, RunState.NEEDS_RECOVERY), 12.0),
    ),
    "recoveries.pause_run": Case(
        Permission.SPEND, lambda s, c, w: recoveries.pause_run(s, c, _in(s, w.queued_run, RunState.TRAINING))
    ),
    "recoveries.resume_run": Case(
        Permission.SPEND, lambda s, c, w: recoveries.resume_run(s, c, _in(s, w.queued_run, RunState.PAUSED))
    ),
    "machine_actions.retry_cleanup": Case(
        Permission.SPEND,
        lambda s, c, w: machine_actions.retry_cleanup(s, c, _machine(s, w.queued_run, MachineState.RELEASE_FAILED)),
    ),
    "machine_actions.show_evaluation_machine": Case(
        Permission.SEE, lambda s, c, w: machine_actions.show_evaluation_machine(s, c, w.queued_evaluation)
    ),
    "recoveries.show_recovery": Case(Permission.SEE, lambda s, c, w: recoveries.show_recovery(s, c, w.failed_run)),
    "recoveries.verify_run": Case(
        Permission.SPEND, lambda s, c, w: recoveries.verify_run(s, c, _in(s, w.queued_run, RunState.NEEDS_RECOVERY))
    ),
    "machine_actions.watch_machine": Case(
        Permission.SEE,
        lambda s, c, w: machine_actions.watch_machine(s, c, _machine(s, w.queued_run, MachineState.HELD)),
    ),
    "slots.show_slots": Case(Permission.SEE, lambda s, c, w: slots.show_slots(s, c), is_own=True),
    "strays.list_strays": Case(Permission.SEE, lambda s, c, w: strays.list_strays(s, c), is_own=True),
    "strays.terminate_stray": Case(
        Permission.STOP, lambda s, c, w: strays.terminate_stray(s, c, _stray(s, w.organization_id))
    ),
    "runs.save_draft": Case(
        Permission.PREPARE,
        lambda s, c, w: runs.save_draft(
            s, c, name="New", version_id=w.frozen_version, baseline_id=w.baseline, settings={}
        ),
    ),
    "runs.launch_run": Case(Permission.SPEND, lambda s, c, w: runs.launch_run(s, c, w.draft_run)),
    "runs.cancel_run": Case(Permission.STOP, lambda s, c, w: runs.cancel_run(s, c, w.queued_run)),
    "runs.list_runs": Case(Permission.SEE, lambda s, c, w: runs.list_runs(s, c), is_own=True),
    "runs.show_run": Case(Permission.SEE, lambda s, c, w: runs.show_run(s, c, w.scored_run)),
    "runs.evaluation_of": Case(Permission.SEE, lambda s, c, w: runs.evaluation_of(s, c, w.scored_run)),
}


def use_cases() -> Iterator[str]:
    for found in pkgutil.iter_modules(services.__path__):
        module = importlib.import_module(f"tensorant_app.services.{found.name}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            is_here = function.__module__ == module.__name__ and not name.startswith("_")
            if is_here and "caller" in inspect.signature(function).parameters:
                yield f"{found.name}.{name}"


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Kept[World]:
    return Kept(tmp_path_factory.mktemp("world") / "data")


@pytest.fixture
def world(sqlite_database: str, clock: Clock, data_dir: Path, kept: Kept[World]) -> World:
    broker.load_actors()
    return kept.put_into(data_dir, make_world)


def make_world() -> World:
    caller = factories.make_caller()
    assert caller.organization_id is not None
    run_id = factories.make_run(caller)
    with unit_of_work() as session:
        draft = session.get_one(Run, run_id)
        frozen = session.get_one(DatasetVersion, draft.version_id)
        project = session.get_one(Project, draft.project_id)
        dataset_id = frozen.dataset_id
        queued = factories.make_baseline(session, project, frozen, state=EvaluationState.QUEUED)
        found = World(
            owner=caller,
            organization_id=caller.organization_id,
            project_id=project.id,
            dataset_id=dataset_id,
            receiving=_import(session, dataset_id, ImportState.RECEIVING, size=2),
            waiting=_import(session, dataset_id, ImportState.RECEIVING, size=2),
            another=_import(session, dataset_id, ImportState.READY),
            checking=_import(session, dataset_id, ImportState.CHECKING),
            ready=frozen.import_id,
            draft_version=factories.make_version(session, project, state=VersionState.DRAFT).id,
            checked_version=factories.make_version(session, project, state=VersionState.DRAFT).id,
            frozen_version=frozen.id,
            baseline=draft.baseline_id,
            queued_evaluation=queued.id,
            draft_run=run_id,
            queued_run=_run(session, draft, state=RunState.QUEUED),
            failed_run=_run(session, draft, state=RunState.FAILED),
            scored_run=_run(session, draft, state=RunState.EVALUATING, evaluation_id=queued.id),
            finished_trial=_run(
                session, draft, state=RunState.COMPLETED, purpose=RunPurpose.TRIAL, trial=TrialSettings().as_values()
            ),
            connection=factories.connect(session, caller.organization_id).id,
        )
        offers.switch_off(session, operator(), "H100", "Not in our plan.", "")
        session.get_one(Evaluation, found.baseline).answers_key = DOWNLOAD
        session.flush()
        session.add(_adapter(session, session.get_one(Run, found.scored_run)))
    make_plain_base(get_settings().bases_dir / "plain")
    store().put(imports.source_key(found.receiving), b"{}")
    store().put(imports.errors_key(found.ready), b'{"row": 1, "line": 1, "path": "", "code": "a", "message": "b"}\n')
    store().put(imports.bad_rows_key(found.ready), b"{}\n")
    store().put(imports.source_key(found.waiting), b"{}")
    put_preview(found.waiting)
    put_rows(found.ready)
    put_rows(found.another)
    with unit_of_work() as session:
        edits.leave_out(session, caller, found.ready, [3])
    store().put(DOWNLOAD, b"{}")
    _write_frozen(str(frozen.content_sha256))
    return found


def callers(world: World) -> dict[str, Caller]:
    """One of each role of the organization, the operator, and the owner of another organization."""
    members = {role.value: factories.make_caller(role, organization_id=world.organization_id) for role in Role}
    return {**members, "operator": operator(), "stranger": factories.make_caller(name="Other")}


def outcome(case: Case, caller: Caller, world: World) -> str:
    """What a caller is told; whatever it is, the next one finds everything as it was."""
    before = rows()
    try:
        with unit_of_work() as session:
            case.act(session, caller, world)
            raise _Done
    except _Done:
        return "done"
    except (Forbidden, NotFound) as refusal:
        return type(refusal).__name__
    finally:
        assert rows() == before


def expected(case: Case, who: str) -> str:
    if who == "operator" and case.is_personal:
        return "NotFound"
    if who == "operator":
        return "done" if case.permission in OPERATOR_MAY else "Forbidden"
    role = Role.OWNER if who == "stranger" else Role(who)
    if role not in ALLOWED[case.permission]:
        return "Forbidden"
    return "NotFound" if who == "stranger" and not case.is_own else "done"


def test_every_use_case_is_in_the_table() -> None:
    assert set(use_cases()) - NOT_USE_CASES == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_each_caller_is_let_through_or_refused_as_the_table_says(world: World, name: str) -> None:
    case = CASES[name]

    found = {who: outcome(case, caller, world) for who, caller in callers(world).items()}

    assert found == {who: expected(case, who) for who in found}


NAMING = [name for name, case in CASES.items() if case.permission is not Permission.OPERATE and not case.is_own]


@pytest.mark.parametrize("name", NAMING)
def test_what_does_not_exist_and_what_is_anothers_are_told_in_the_same_words(world: World, name: str) -> None:
    stranger = factories.make_caller(name="Other")
    ids = {field: uuid4() for field in World.__dataclass_fields__ if field != "owner"}
    nowhere = World(owner=world.owner, **ids)

    told = [_refusal(CASES[name], stranger, one) for one in (world, nowhere)]

    assert [_without_id(sentence) for sentence in told] == [_without_id(told[0])] * 2


def test_a_list_holds_nothing_of_another_organization(world: World) -> None:
    stranger = factories.make_caller(name="Other")
    own = factories.make_run(stranger)

    with reading() as session:
        assert [view.id for view in runs.list_runs(session, stranger)] == [own]
        assert len(runs.list_runs(session, world.owner)) == 5
        assert len(runs.list_runs(session, operator())) == 6


class _Done(Exception):
    """Takes back what a caller was allowed to do."""


def _refusal(case: Case, caller: Caller, world: World) -> str:
    with pytest.raises(NotFound) as refusal, unit_of_work() as session:
        case.act(session, caller, world)
    return refusal.value.message


def _without_id(sentence: str) -> str:
    return " ".join(word for word in sentence.split() if word.count("-") != 4)


def typed(world: World) -> dict[str, str]:
    """The form of a run, filled in."""
    chosen = {"version": str(world.frozen_version), "baseline": str(world.baseline)}
    return {**run_form.blank_form(), **chosen, "name": "New"}


def end_own(session: Session, caller: Caller) -> None:
    """A member signs in and ends it."""
    own = uuid4()
    if caller.member_id is not None:
        user_id = session.get_one(Member, caller.member_id).user_id
        sessions.open_session(session, user_id, sessions.Visitor("127.0.0.1", "a browser"), how="test")
        own = session.exec(select(SignIn.id).where(SignIn.user_id == user_id)).one()
    sessions.end_session(session, caller, own)


def _connected(session: Session, caller: Caller) -> Caller:
    """A stranger's organization has an account of its own."""
    if caller.organization_id and not find_connection(session, caller.organization_id, ConnectionKind.RUNPOD_COMPUTE):
        factories.connect(session, caller.organization_id)
    return caller


def _in(session: Session, run_id: UUID, state: RunState) -> UUID:
    """The run, put into a state; nothing where there is no such run."""
    if (run := session.get(Run, run_id)) is not None:
        run.state = state
    return run_id


def _machine(session: Session, subject_id: UUID, state: MachineState, *, use: Use = Use.RUN) -> UUID:
    """A machine of the run, or of the evaluation; an id of nothing where that is not there."""
    subject = session.get(Run if use is Use.RUN else Evaluation, subject_id)
    if subject is None:
        return uuid4()
    order = factories.make_order(subject.organization_id, subject_id, now_of(session), use=use)
    machines.ask_machine(session, order, "train")
    row = session.exec(select(Machine).where(Machine.subject_id == subject_id)).one()
    row.state, subject.attempt = state, 1
    return row.id


def _checked(session: Session, subject_id: UUID) -> UUID:
    """Its launch was looked for in vain."""
    use = Use.RUN if session.get(Run, subject_id) else Use.EVALUATION
    machine = session.get(Machine, _machine(session, subject_id, MachineState.ASKED, use=use))
    if machine is not None:
        long_ago = now_of(session) - timedelta(minutes=11)
        machine.ask_sent_at = machine.answer_lost_at = machine.absent_since = long_ago
        machine.absent_looks = 9
        subject = session.get(Run, subject_id) or session.get_one(Evaluation, subject_id)
        subject.state = RunState.LAUNCHING if isinstance(subject, Run) else EvaluationState.LAUNCHING
    return subject_id


def _ready(session: Session, run_id: UUID) -> UUID:
    """Its adapter waits for a score."""
    run = session.get(Run, run_id)
    if run is not None:
        run.state, run.evaluation_id = RunState.ADAPTER_READY, None
    return run_id


def _handed_in(session: Session, run_id: UUID) -> UUID:
    """An adapter.zip that is on its way."""
    run = session.get(Run, run_id)
    if run is None:
        return uuid4()
    row = AdapterUpload(
        id=uuid4(),
        created_at=now_of(session),
        organization_id=run.organization_id,
        run_id=run_id,
        size=100,
        state=AdapterUploadState.RECEIVING,
    )
    session.add(row)
    session.flush()
    return row.id


def _stray(session: Session, organization_id: UUID) -> UUID:
    if session.get(Organization, organization_id) is None:
        return uuid4()
    now = now_of(session)
    row = StrayMachine(
        id=uuid4(),
        organization_id=organization_id,
        account_id=factories.ACCOUNT,
        name="tune-forgotten",
        provider_id="pod_f",
        provider_status="RUNNING",
        first_seen_at=now,
        seen_at=now,
    )
    session.add(row)
    session.flush()
    return row.id


def _adapter(session: Session, run: Run) -> Adapter:
    return Adapter(
        id=uuid4(),
        created_at=now_of(session),
        organization_id=run.organization_id,
        run_id=run.id,
        attempt=1,
        key="nowhere",
        manifest={},
        zip_key=DOWNLOAD,
    )


_IMAGE = f"{'0' * 64}.png"


def _with_thumbnail(session: Session, version_id: UUID) -> UUID:
    if version := session.get(DatasetVersion, version_id):
        store().put(f"imports/{version.import_id}/{THUMBNAILS}/{'0' * 64}.webp", b"webp")
    return version_id


def _with_picture(import_id: UUID) -> UUID:
    store().put(f"imports/{import_id}/{THUMBNAILS}/{'0' * 64}.webp", b"webp")
    return import_id


def _being_checked(session: Session, version_id: UUID) -> UUID:
    if version := session.get(DatasetVersion, version_id):
        version.state = VersionState.CHECKING
    return version_id


def _import(session: Session, dataset_id: UUID, state: ImportState, *, size: int | None = None) -> UUID:
    dataset = session.get_one(Dataset, dataset_id)
    row = Import(
        id=uuid4(),
        created_at=now_of(session),
        organization_id=dataset.organization_id,
        dataset_id=dataset_id,
        file_name="tickets.jsonl",
        state=state,
        size=size,
    )
    session.add(row)
    return row.id


def _run(session: Session, like: Run, **values: Any) -> UUID:
    run = Run(**{**like.model_dump(), "id": uuid4(), **values})
    session.add(run)
    return run.id


def _compared(session: Session, world: World) -> UUID:
    """Another version of the same dataset and the same rows."""
    version = session.get(DatasetVersion, world.frozen_version)
    if version is None:
        return uuid4()
    values = {**version.model_dump(), "id": uuid4(), "number": 1_000}
    session.add(DatasetVersion(**values))
    session.flush()
    return UUID(str(values["id"]))


def give_token(session: Session, caller: Caller) -> None:
    safety.set_address(session, caller, "https://a.example.com", "60")
    safety.set_token(session, caller, "secret-token-1234")


def give_operators_token(session: Session, caller: Caller, organization_id: UUID) -> None:
    safety.set_private_address(session, caller, organization_id, "http://127.0.0.1:9/", "60")
    safety.set_operators_token(session, caller, organization_id, "secret-token-1234")


def _unused_dataset(session: Session, dataset_id: UUID) -> UUID:
    """An empty one beside it."""
    if (row := session.get(Dataset, dataset_id)) is None:
        return dataset_id
    session.add(Dataset(**{**row.model_dump(), "id": (made := uuid4())}))
    session.flush()
    return made


def _unused(session: Session, import_id: UUID) -> UUID:
    """Read, and in no version."""
    if (row := session.get(Import, import_id)) is not None:
        row.state = ImportState.READY
        session.flush()
    return import_id


def _write_frozen(content_sha256: str) -> None:
    """One row group is enough: the page lies beyond the end."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = store().fetch(versions.frozen_key(content_sha256))
    folder.mkdir(parents=True)
    for split in Split:
        pq.write_table(pa.table({"row": [1], "example": ["{}"]}), folder / f"{split.value}.parquet")
    keys = {"split": "test", "row": 1, "sha256": bytes(32), "question_key": bytes(16)}
    pq.write_table(pa.table({name: [value] for name, value in keys.items()}), folder / KEYS)
    mask = {"split": "test", "row": 1, "tokens": 1, "trained_tokens": 1, "text": "a", "spans": "[]", "error": ""}
    pq.write_table(pa.table({name: [value] for name, value in mask.items()}), folder / MASK)
