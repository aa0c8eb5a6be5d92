"""The README's first command, with the real model and the real data."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from platformdirs import user_data_dir

from tensorant_app.services.bases import fetch_demo_base
from tensorant_app.settings import get_settings

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="session")
def smollm_folder() -> Path:
    """The converted base model, kept in the user's data folder between runs."""
    bases = Path(user_data_dir("tensorant", appauthor=False)) / "bases"
    get_settings.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORANT_DATA_DIR", str(bases.parent))
        base = fetch_demo_base(print)
    get_settings.cache_clear()
    return Path(base.folder)


def test_a_real_model_learns_a_real_task(smollm_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bases").mkdir()
    (tmp_path / "bases" / smollm_folder.name).symlink_to(smollm_folder)
    env = {**os.environ, "TENSORANT_DATA_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}

    done = subprocess.run(
        [str(Path(sys.executable).with_name("tensorant")), "demo", "--headless", "--test-rows", "100"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    numbers = {name: float(value) for name, value in re.findall(r"^ (\S.*?)\s{2,}([+-]?\d[\d.]*)", done.stdout, re.M)}
    assert numbers["test rows"] == 100
    assert numbers["tuned, exact match"] >= 0.65
    gain, lower = re.findall(r"gain over likeliest label\s+\+([\d.]+), at least \+([\d.]+)", done.stdout)[0]
    assert float(gain) >= 0.25
    assert float(lower) > 0.10
    (archive,) = (tmp_path / "store" / "adapters").glob("*.zip")
    with zipfile.ZipFile(archive) as adapter:
        assert adapter.testzip() is None
        assert {"adapter_config.json", "adapter_model.safetensors", "manifest.json"} <= set(adapter.namelist())
        assert str(tmp_path) not in adapter.read("adapter_config.json").decode()
