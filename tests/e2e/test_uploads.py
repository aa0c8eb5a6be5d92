"""A file sent by the browser itself, over a connection that breaks."""

from __future__ import annotations

import subprocess
import sys

import pytest
from playwright.sync_api import BrowserContext, Page, Route

from tests.e2e.conftest import Stack, let_in

pytestmark = pytest.mark.slow

_DATASET = """
import sys
from tensorant_app.db.session import unit_of_work, reading
from tensorant_app.services import imports, organizations
from tests.factories import make_project
with reading() as session:
    caller = organizations.caller_of(session, sys.argv[1])
with unit_of_work() as session:
    project = make_project(session, caller.organization_id)
    print(imports.create_dataset(session, caller, project.id, "Tickets"))
"""
_SEND = """
async ([dataset, rows]) => {
  const row = JSON.stringify({messages: [{role: "user", content: "x".repeat(900)}, {role: "assistant", content: "yes"}]});
  const file = new File([Array(rows).fill(row).join("\\n")], "tickets.jsonl");
  const seen = [];
  const id = await tensorantUpload(file, dataset, { onProgress: (done, total, says) => seen.push([done, total, says]) });
  return { id, seen, size: file.size };
}
"""


@pytest.fixture
def dataset(stack: Stack) -> str:
    argv = [sys.executable, "-c", _DATASET, stack.email("member")]
    return subprocess.run(argv, env=stack.env, capture_output=True, text=True, check=True).stdout.strip()


def test_it_goes_on_by_itself_and_waits_for_a_person(
    page: Page, context: BrowserContext, stack: Stack, dataset: str
) -> None:
    let_in(context, stack, "member")
    page.goto("/account")
    broken: list[str] = []

    def break_once(route: Route) -> None:
        if route.request.method == "PATCH" and "offset=4194304" in route.request.url and not broken:
            broken.append(route.request.url)
            route.abort("connectionreset")
        else:
            route.continue_()

    page.route("**/api/uploads/**", break_once)
    sent = page.evaluate(_SEND, [dataset, 10_000])

    assert broken
    assert [done for done, _, says in sent["seen"] if not says] == [4194304, 8388608, sent["size"]]
    assert "The connection dropped. The upload goes on by itself …" in [says for _, _, says in sent["seen"]]
    shown = context.request.get(f"/api/uploads/{sent['id']}").json()
    assert (shown["state"], shown["offset"]) == ("receiving", sent["size"])
