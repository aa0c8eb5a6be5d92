"""Projects that a journey begins with."""

from __future__ import annotations

import subprocess
import sys

from tests.e2e.conftest import Stack
from trainer.contract import Base

_PROJECT = """
import sys
from pathlib import Path
from tensorant_app.db.session import reading, unit_of_work
from tensorant_app.services import bases, imports, organizations, projects
from trainer.contract import Base
with reading() as session:
    caller = organizations.caller_of(session, sys.argv[1])
facts = bases.inspect_base(Base(sys.argv[2], sys.argv[3], sys.argv[4]))
with unit_of_work() as session:
    project = projects.create_project(session, caller, "Support triage", facts)
    imports.create_dataset(session, caller, project, "tickets")
print(project)
"""


def make_project(stack: Stack, base: Base) -> str:
    """Of the member's, with an empty dataset; its id."""
    argv = [sys.executable, "-c", _PROJECT, stack.email("member"), base.repo_id, base.revision, base.folder]
    return subprocess.run(argv, env=stack.env, capture_output=True, text=True, check=True).stdout.split()[-1]
