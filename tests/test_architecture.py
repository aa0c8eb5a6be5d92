"""The house rules that no other tool holds."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("tensorant_app", "jobs", "trainer")
HEAVY = {"polars", "duckdb", "pyarrow", "boto3", "plotly", "torch", "transformers", "tokenizers", "reflex", "numpy"}


@cache
def sources(*packages: str) -> list[tuple[Path, ast.Module, str]]:
    """Every module of these packages, or of all: where it is, its tree and its text."""
    paths = [path for package in packages or PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    return [(path.relative_to(ROOT), ast.parse(text := path.read_text()), text) for path in paths]


def test_domain_and_contract_are_plain_python() -> None:
    graph = grimp.build_graph("tensorant_app", "jobs", "trainer", include_external_packages=True)
    plain = {
        "tensorant_app.domain",
        "trainer.contract",
        "trainer.contract_files",
        "trainer.contract_manifest",
        "trainer.contract_mask",
    } | graph.find_descendants("tensorant_app.domain")
    foreign = {
        (m, i)
        for m in plain
        for i in graph.find_modules_directly_imported_by(m)
        if i.split(".")[0] not in sys.stdlib_module_names
        and not i.startswith(("tensorant_app.domain", "trainer.contract"))
    }
    assert not foreign


@pytest.mark.parametrize("module", ["jobs.worker", "tensorant_app.cli"])
def test_starting_imports_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}, jobs.broker; jobs.broker.load_actors(); print(*{{m.split('.')[0] for m in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)

    assert not HEAVY & set(done.stdout.split())


def test_modules_can_be_read_in_one_sitting() -> None:
    long = {str(path): text.count("\n") for path, _, text in sources() if text.count("\n") > 400}

    assert not long


def test_every_module_says_in_one_sentence_what_it_is() -> None:
    silent = [
        str(path)
        for path, tree, text in sources()
        if text.strip() and path.name != "__init__.py" and not ast.get_docstring(tree)
    ]

    assert not silent


def test_package_files_are_empty() -> None:
    full = [
        str(path)
        for path, _, text in sources()
        if path.name == "__init__.py" and text.strip() and path.parts[:2] != ("tensorant_app", "db")
    ]

    assert not full


@pytest.mark.parametrize(
    ("pattern", "why", "allowed"),
    [
        (r"shell=True", "argv lists only", ()),
        (r"trust_remote_code=True", "a model's code is never run", ()),
        (r"\bpickle\.loads?\b|\bjoblib\b", "unpickling runs code", ()),
        (r"torch\.load\((?!.*weights_only=True)", "unpickling runs code", ()),
        (r"\.commit\(\)", "only the unit of work commits", ("tensorant_app/db/session.py",)),
        (r"datetime\.now\(|datetime\.utcnow\(", "time comes from db/clock", ("tensorant_app/db/clock.py", "trainer/")),
        (
            r"(price|cost|spend|amount|dollars)\w*\s*:\s*float\b",
            "money is never a float",
            ("tensorant_app/domain/money.py",),
        ),
    ],
)
def test_no_line_of_a_forbidden_kind(pattern: str, why: str, allowed: tuple[str, ...]) -> None:
    found = [
        f"{path}: {line.strip()}"
        for path, _, text in sources()
        if not str(path).startswith(allowed or ("-",))
        for line in text.splitlines()
        if re.search(pattern, line) and not line.strip().startswith(("#", '"""'))
    ]

    assert not found, why


def test_no_provider_is_called_inside_a_transaction() -> None:
    calls = {"create", "look", "release", "offers"}
    found = []
    for path, tree, _ in sources("jobs", "tensorant_app"):
        for block in ast.walk(tree):
            if isinstance(block, ast.With) and any(
                "unit_of_work" in ast.unparse(i) or ".write(" in ast.unparse(i) for i in block.items
            ):
                found += [
                    f"{path}:{node.lineno}"
                    for node in ast.walk(block)
                    if isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Attribute)
                    and node.func.attr in calls
                    and "provider" in ast.unparse(node.func.value)
                ]

    assert not found


def test_every_permission_is_asked_by_a_service() -> None:
    from tensorant_app.domain.members import Permission

    asked = {
        name for _, _, text in sources("tensorant_app/services") for name in re.findall(r"Permission\.(\w+)", text)
    }

    assert {permission.name for permission in Permission} == asked


def test_every_actor_has_a_test_that_delivers_its_hint_twice() -> None:
    from jobs import broker

    broker.load_actors()
    kinds = {kind for kind in broker.JOBS if not kind.startswith("test")}
    text = "".join(path.read_text() for path in (ROOT / "tests" / "jobs").glob("test_*.py"))

    assert kinds == {
        "machines.tend",
        "accounts.poll",
        "accounts.sweep",
        "store.sweep",
        "adapters.check",
        "runs.react",
        "evaluations.react",
        "versions.react",
        "safety.react",
        "deletions.react",
        "imports.react",
        "connections.check",
        "offers.refresh",
        "spend.sync",
    }
    assert "test_the_same_hint_twice_looks_once" in text
    assert "test_a_file_that_is_checked_twice_is_taken_once" in text
    assert "test_a_poll_or_a_sweep_delivered_twice_changes_nothing_more" in text
    assert "test_the_same_hint_twice_asks_once" in text
    assert "test_every_hint_twice_changes_nothing" in text
    assert "test_the_same_hint_twice_reads_once" in text
    assert "test_delivered_twice_it_sweeps_once_more_and_no_harm_is_done" in text
    assert "test_every_hint_twice_looks_once_and_a_lost_promise" in text
    assert "test_every_hint_twice_removes_once_and_a_lost_promise" in text
    assert "test_a_bill_that_is_asked_for_twice_is_booked_once" in text
