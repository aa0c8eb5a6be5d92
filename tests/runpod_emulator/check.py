"""`python -m tests.runpod_emulator.check`: thousands of generated requests against the emulator, by schemathesis.

They are drawn from a description: the provider's own where one is named with --spec, else ours as an OpenAPI document.
What is not served here is left out. Ends with 0 only if every answer kept to the description.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.runpod_emulator.api import ROUTES
from tests.runpod_emulator.emulator import Emulator
from tests.runpod_emulator.rates import RateLimit
from tests.runpod_emulator.shapes import ANSWERS, BODIES, PROBLEM

THEIRS = Path(__file__).resolve().parents[2].parent / "shared" / "runpod" / "rest-v2-tensorant.json"
CREATED = {"pods.create", "volumes.create", "registries.create", "secrets.create"}
NOT_TOLD = """
# Which volumes a data center has, that a Pod needs an image or a template, which of startTime, endTime and lastN
# go together: the provider says it in prose, so a request that its schema allows may be refused.
checks.positive_data_acceptance.enabled = false
# A stream of log lines ends when the Pod does.
[[operations]]
include-path-regex = "/logs$"
enabled = false
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.runpod_emulator.check", description=__doc__)
    parser.add_argument("--spec", type=Path, help="the provider's own description, an OpenAPI file")
    parser.add_argument("--examples", type=int, default=40, help="generated requests for each operation")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    spec = args.spec or (THEIRS if THEIRS.is_file() else None)
    return max(run(ours(), args.examples, args.seed), run(served(spec), args.examples, args.seed) if spec else 0)


def run(document: dict[str, Any], examples: int, seed: int) -> int:
    """The exit status of schemathesis, whose report goes to the terminal."""
    with tempfile.TemporaryDirectory(prefix="tensorant-check-") as name, Emulator(Path(name)) as emulator:
        emulator.world.rates = RateLimit(minute=10**9, hour=10**9)
        folder = Path(name)
        (folder / "openapi.json").write_text(json.dumps(document))
        (folder / "schemathesis.toml").write_text(NOT_TOLD)
        tool = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", "schemathesis.toml"]
        options = ["--url", emulator.api_url.removesuffix("/v2"), "--header", f"Authorization: Bearer {emulator.key}"]
        size = ["--max-examples", str(examples), "--seed", str(seed), "--phases", "examples,coverage,fuzzing"]
        return subprocess.run([*tool, "run", "openapi.json", *options, *size], cwd=folder, check=False).returncode


def served(spec: Path) -> dict[str, Any]:
    """The provider's description without the operations that the emulator does not know."""
    document: dict[str, Any] = json.loads(spec.read_text())
    document["paths"] = {path: ways for path, ways in document["paths"].items() if _methods_of(path)}
    return document


def _methods_of(path: str) -> set[str]:
    return {method for pattern, known in ROUTES if re.fullmatch(pattern, path) for method in known}


def ours() -> dict[str, Any]:
    """Our own shapes as an OpenAPI document."""
    paths: dict[str, Any] = {}
    for pattern, methods in ROUTES:
        path = re.sub(r"\(.*?\)", "{id}", pattern)
        paths[path] = {method.lower(): _operation(name) for method, name in methods.items()}
        if "{id}" in path:
            text = {"type": "string", "minLength": 1}
            paths[path]["parameters"] = [{"name": "id", "in": "path", "required": True, "schema": text}]
    bearer = {"bearer": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "What the emulator serves", "version": "2"},
        "components": {"securitySchemes": bearer},
        "security": [{"bearer": []}],
        "paths": paths,
    }


def _operation(name: str) -> dict[str, Any]:
    problem = {"description": "A problem", "content": {"application/problem+json": {"schema": PROBLEM}}}
    done: dict[str, Any] = {"204": {"description": "Done"}}
    if name in ANSWERS:
        content = {"application/json": {"schema": ANSWERS[name]}}
        status = "201" if name in CREATED else "200"
        done = {status: {"description": "Done", "content": content}} | (done if name == "pods.action" else {})
    answers = {**done, **{str(status): problem for status in (400, 401, 403, 404, 405, 409, 413, 422, 429)}}
    body = {"required": True, "content": {"application/json": {"schema": BODIES[name]}}} if name in BODIES else None
    return {"operationId": name, "responses": answers} | ({"requestBody": body} if body else {})


if __name__ == "__main__":
    sys.exit(main())
