"""Paths of pages, as Reflex routes them, and the builders of their addresses.

A builder takes an id as text or as a state variable: both are written into the address the same way.
"""

from __future__ import annotations

HOME = "/"
SIGN_IN = "/sign-in"
SET_UP = "/set-up"
NEW_PASSWORD = "/new-password"
ACCOUNT = "/account"
PROJECTS = "/projects"
NEW_PROJECT = "/projects/new"
OVERVIEW = "/projects/[project_id]"
DATA = "/projects/[project_id]/data"
IMPORT = "/projects/[project_id]/data/imports/[import_id]"
VERSION = "/projects/[project_id]/data/versions/[version_id]"
BASELINE = "/projects/[project_id]/baseline"
RUNS = "/projects/[project_id]/runs"
CONFIGURE = "/projects/[project_id]/runs/new"
RUN = "/projects/[project_id]/runs/[run_id]"
EVALUATIONS = "/projects/[project_id]/evaluations"
SCORECARD = "/projects/[project_id]/evaluations/[evaluation_id]"
PROJECT_SETTINGS = "/projects/[project_id]/settings"
CONNECTIONS = "/connections"
KIT = "/kit"

SIGN_IN_POST = "/api/sign-in"
SIGN_OUT_POST = "/api/sign-out"
SIGN_OUT_EVERYWHERE_POST = "/api/sign-out-everywhere"
SET_UP_POST = "/api/set-up"
PASSWORD_POST = "/api/password"
NEW_PASSWORD_POST = "/api/new-password"
UPLOADS = "/api/uploads"


def overview(project_id: object) -> str:
    return f"/projects/{project_id}"


def data(project_id: object) -> str:
    return f"/projects/{project_id}/data"


def import_(project_id: object, import_id: object) -> str:
    return f"/projects/{project_id}/data/imports/{import_id}"


def version(project_id: object, version_id: object) -> str:
    return f"/projects/{project_id}/data/versions/{version_id}"


def baseline(project_id: object) -> str:
    return f"/projects/{project_id}/baseline"


def runs(project_id: object) -> str:
    return f"/projects/{project_id}/runs"


def configure(project_id: object) -> str:
    return f"/projects/{project_id}/runs/new"


def run(project_id: object, run_id: object) -> str:
    return f"/projects/{project_id}/runs/{run_id}"


def evaluations(project_id: object) -> str:
    return f"/projects/{project_id}/evaluations"


def scorecard(project_id: object, evaluation_id: object) -> str:
    return f"/projects/{project_id}/evaluations/{evaluation_id}"


def project_settings(project_id: object) -> str:
    return f"/projects/{project_id}/settings"


def adapter_archive(run_id: object) -> str:
    return f"/api/runs/{run_id}/adapter.zip"


def job_files(run_id: object) -> str:
    return f"/api/runs/{run_id}/job-files.zip"


def answers(evaluation_id: object) -> str:
    return f"/api/evaluations/{evaluation_id}/answers.jsonl"


def version_rows(version_id: object, kind: str) -> str:
    return f"/api/versions/{version_id}/rows?format={kind}"


def import_errors(import_id: object) -> str:
    return f"/api/imports/{import_id}/errors.jsonl"


def import_bad_rows(import_id: object) -> str:
    return f"/api/imports/{import_id}/bad-rows.jsonl"


def import_image(import_id: object, name: object) -> str:
    return f"/api/imports/{import_id}/images/{name}"


def version_image(version_id: object, name: object) -> str:
    return f"/api/versions/{version_id}/images/{name}"


def upload(upload_id: object) -> str:
    return f"{UPLOADS}/{upload_id}"
