"""Every starter ends at the newest tables, whoever comes first; nothing is half migrated."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlmodel import SQLModel

from tensorant_app.db import migrate, session
from tensorant_app.domain.errors import Conflict

VERSION = '''"""Make the first tables."""

import sqlalchemy as sa

from alembic import op

revision = "{revision}"
down_revision = {before!r}


def upgrade() -> None:
    {step}
'''

PARENTS = """op.create_table("parent", sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False))
    op.create_table(
        "child",
        sa.Column("id", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("parent_id", sa.Integer(), sa.ForeignKey("parent.id", ondelete="CASCADE"), nullable=False),
    )
    op.execute("INSERT INTO parent VALUES (1)")
    op.execute("INSERT INTO child VALUES (1, 1)")"""

BATCH = """with op.batch_alter_table("parent") as batch:
        batch.alter_column("id", type_=sa.BigInteger())
        batch.add_column(sa.Column("name", sa.String(), nullable=True))"""


@pytest.fixture
def versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scripts folder with no version of ours in it."""
    scripts = tmp_path / "100% scripts"
    (scripts / "versions").mkdir(parents=True)
    for name in ("env.py", "script.py.mako"):
        (scripts / name).write_text((migrate.scripts_dir() / name).read_text())
    monkeypatch.setattr(migrate, "scripts_dir", lambda: scripts)
    return scripts / "versions"


def add(versions: Path, revision: str, before: str | None, step: str) -> None:
    (versions / f"{revision}.py").write_text(VERSION.format(revision=revision, before=before, step=step))


@pytest.fixture(params=["sqlite", "postgres"])
def empty_database(request: pytest.FixtureRequest, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A database without a table."""
    if request.param == "sqlite":
        yield session.get_settings().database_url
        return
    url = request.getfixturevalue("postgres_database")
    with session.engines().write.begin() as connection:
        connection.exec_driver_sql("DROP SCHEMA public CASCADE")
        connection.exec_driver_sql("CREATE SCHEMA public")
    yield url


def rows(table: str) -> int:
    with session.engines().read.begin() as connection:
        return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())


@pytest.mark.usefixtures("empty_database")
class TestUpgrade:
    def test_it_goes_to_the_newest_and_a_second_time_does_nothing(self, versions: Path) -> None:
        add(versions, "0001", None, PARENTS)

        migrate.upgrade()
        migrate.upgrade()

        assert rows("parent") == 1
        migrate.require_current()

    def test_making_a_table_anew_deletes_none_of_its_children(self, versions: Path) -> None:
        add(versions, "0001", None, PARENTS)
        add(versions, "0002", "0001", BATCH)

        migrate.upgrade()

        assert rows("child") == 1

    def test_a_step_that_fails_leaves_the_database_as_it_was(self, versions: Path) -> None:
        add(versions, "0001", None, PARENTS)
        migrate.upgrade()
        add(versions, "0002", "0001", BATCH)
        add(versions, "0003", "0002", 'raise RuntimeError("no")')

        with pytest.raises(RuntimeError, match="no"):
            migrate.upgrade()

        with session.engines().read.begin() as connection:
            assert "name" not in {column["name"] for column in sa.inspect(connection).get_columns("parent")}

    def test_a_worker_refuses_a_database_of_another_version(self, versions: Path) -> None:
        add(versions, "0001", None, PARENTS)

        with pytest.raises(Conflict, match="at version nothing, this program needs 0001"):
            migrate.require_current()

    def test_starters_that_come_together_all_arrive(self, versions: Path, empty_database: str) -> None:
        add(versions, "0001", None, PARENTS)
        code = (
            "from pathlib import Path; from tensorant_app.db import migrate;"
            f"migrate.scripts_dir = lambda: Path({str(versions.parent)!r}); migrate.upgrade()"
        )
        starters = [
            subprocess.Popen([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.getcwd()})
            for _ in range(3)
        ]

        assert [starter.wait(60) for starter in starters] == [0, 0, 0]
        assert rows("parent") == 1


@pytest.mark.usefixtures("data_dir")
class TestWriting:
    def test_the_first_revision_makes_all_tables_in_plain_types(self, versions: Path) -> None:
        migrate.revise("the first tables")

        (written,) = versions.glob("*.py")
        text = written.read_text()
        assert all(f'"{table}"' in text or f"'{table}'" in text for table in SQLModel.metadata.tables)
        assert "tensorant" not in text
        assert "sqlmodel" not in text
        migrate.check()

    def test_check_tells_of_a_table_that_no_migration_makes(self, versions: Path) -> None:
        add(versions, "0001", None, "pass")

        with pytest.raises(Exception, match="New upgrade operations detected"):
            migrate.check()

    def test_a_second_revision_follows_the_first(self, versions: Path) -> None:
        migrate.revise("the first tables")
        migrate.revise("nothing new")

        assert [path.name[:4] for path in sorted(versions.glob("*.py"))] == ["0001", "0002"]
        migrate.check()


def test_our_migrations_make_our_tables(data_dir: Path) -> None:
    migrate.check()


def test_the_scripts_are_found() -> None:
    assert (migrate.scripts_dir() / "env.py").is_file()
