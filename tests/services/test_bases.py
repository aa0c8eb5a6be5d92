"""A base model's folder is believed only file by file, and every reason against it is named at once."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tensorant_app.domain.errors import NotFound, Refused
from tensorant_app.providers.storage import FolderStore
from tensorant_app.services.bases import find_base, inspect_base, reads_images, stage_base
from tensorant_app.settings import get_settings
from tests.plain_base import REPO_ID, REVISION, make_plain_base, weights
from trainer.contract import Base, seal_folder, verify_folder


def reasons_of(base: Base) -> tuple[str, ...]:
    with pytest.raises(Refused) as refused:
        inspect_base(base)
    return refused.value.reasons


class TestFinding:
    def test_it_is_found_by_name_and_revision_whatever_its_folder_is_called(self, data_dir: Path) -> None:
        folder = get_settings().bases_dir / "anything"
        make_plain_base(folder)
        make_plain_base(get_settings().bases_dir / "another", revision="b" * 40)

        base = find_base(REPO_ID, REVISION)

        assert base == Base(REPO_ID, REVISION, str(folder))

    @pytest.mark.parametrize(
        ("repo_id", "revision"), [(REPO_ID, "c" * 40), ("tests/other", REVISION)], ids=["revision", "name"]
    )
    def test_one_that_vanished_is_named_with_what_to_do(self, data_dir: Path, repo_id: str, revision: str) -> None:
        make_plain_base(get_settings().bases_dir / "tiny")

        with pytest.raises(NotFound, match=rf"{repo_id} at revision {revision[:12]} is not on .* fetch it again"):
            find_base(repo_id, revision)

    @pytest.mark.parametrize("manifest", ["", "{", "[]", "null", '{"files": []}', '{"files": {}, "facts": {}}'])
    def test_a_folder_whose_manifest_cannot_be_read_is_passed_over(self, data_dir: Path, manifest: str) -> None:
        broken = get_settings().bases_dir / "broken"
        broken.mkdir()
        (broken / "manifest.json").write_text(manifest)
        make_plain_base(get_settings().bases_dir / "tiny")

        assert find_base(REPO_ID, REVISION).folder.endswith("tiny")


class TestInspecting:
    def test_its_facts_are_read_without_loading_it(self, tmp_path: Path) -> None:
        base = make_plain_base(tmp_path / "base", extra={"more.safetensors": weights({"norm": [64], "scale": []})})

        facts = inspect_base(base)

        assert facts.parameters == 100 * 64 + 64 + 64 + 1
        assert (facts.architecture, facts.context_length) == ("LlamaForCausalLM", 2048)
        queries_to_down = ((64, 64), (64, 32), (64, 32), (64, 64), (64, 128), (64, 128), (128, 64))
        assert facts.linear_sizes == queries_to_down * 3
        files = [path for path in (tmp_path / "base").iterdir() if path.name != "manifest.json"]
        assert facts.bytes == sum(path.stat().st_size for path in files)

    def test_a_head_size_of_its_own_counts(self, tmp_path: Path) -> None:
        base = make_plain_base(tmp_path / "base", head_dim=32, num_key_value_heads=None, num_hidden_layers=1)

        assert inspect_base(base).linear_sizes[:4] == ((64, 128), (64, 128), (64, 128), (128, 64))

    def test_the_sizes_are_those_of_a_real_models_weights(self, tiny_base: Base) -> None:
        with (Path(tiny_base.folder) / "model.safetensors").open("rb") as file:
            header: dict[str, Any] = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        layers = [value["shape"] for name, value in header.items() if name.endswith("_proj.weight")]

        facts = inspect_base(tiny_base)

        assert Counter(facts.linear_sizes) == Counter((inputs, outputs) for outputs, inputs in layers)

    def test_a_template_inside_the_tokenizers_config_will_do(self, tmp_path: Path) -> None:
        config = json.dumps({"chat_template": "{{ messages }}"}).encode()
        base = make_plain_base(
            tmp_path / "base", without=["chat_template.jinja"], extra={"tokenizer_config.json": config}
        )

        assert inspect_base(base).base == base


class TestRefusing:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            ({"without": ["tokenizer.json"]}, "It holds no tokenizer.json. Choose"),
            ({"without": ["chat_template.jinja"]}, "It has no chat template. Choose the instruct variant"),
            ({"without": ["model.safetensors"]}, "It holds no safetensors weights. Choose"),
            (
                {"without": ["model.safetensors"], "extra": {"pytorch_model.bin": b"x"}},
                "It holds no safetensors weights but pytorch_model.bin, which can run code",
            ),
            ({"extra": {"model.safetensors": b"x" * 100}}, "model.safetensors is no whole safetensors file."),
            ({"extra": {"model.safetensors": b""}}, "model.safetensors is no whole safetensors file."),
            ({"auto_map": {"AutoModel": "x.Y"}}, "It asks to run code of its own. Tensorant never runs"),
            ({"architectures": ["MambaForCausalLM"]}, "Its architecture MambaForCausalLM is not known here. Choose"),
            ({"architectures": None}, "Its architecture unknown is not known here."),
            ({"without": ["config.json"]}, "Its config.json cannot be read. Fetch it again."),
            ({"extra": {"config.json": b"[]"}}, "Its config.json cannot be read. Fetch it again."),
            ({"hidden_size": None}, "Its config.json does not say hidden_size. Choose another revision."),
        ],
        ids=lambda value: value if isinstance(value, str) else None,
    )
    def test_a_folder_is_refused_with_what_to_do(self, tmp_path: Path, change: dict[str, Any], reason: str) -> None:
        base = make_plain_base(tmp_path / "base", **change)

        (found,) = reasons_of(base)

        assert found.startswith(reason)

    def test_all_reasons_are_named_at_once(self, tmp_path: Path) -> None:
        base = make_plain_base(
            tmp_path / "base",
            without=["tokenizer.json", "chat_template.jinja", "model.safetensors"],
            extra={"weights.pt": b"x"},
            auto_map={},
        )

        assert len(reasons_of(base)) == 4

    @pytest.mark.parametrize("name", ["config.json", "model.safetensors", "tokenizer.json"])
    def test_a_damaged_file_is_named(self, tmp_path: Path, name: str) -> None:
        base = make_plain_base(tmp_path / "base")
        path = tmp_path / "base" / name
        path.write_bytes(path.read_bytes() + b" ")

        assert reasons_of(base) == (f"base: {name} differs from its manifest. Fetch it again.",)

    def test_a_missing_file_is_named(self, tmp_path: Path) -> None:
        base = make_plain_base(tmp_path / "base")
        (tmp_path / "base" / "model.safetensors").unlink()

        assert reasons_of(base) == ("base: model.safetensors is missing. Fetch it again.",)

    def test_a_manifest_that_names_a_file_outside_is_not_followed(self, tmp_path: Path) -> None:
        base = make_plain_base(tmp_path / "base")
        (tmp_path / "secret").write_text("x")
        manifest = seal_folder(tmp_path / "base", {})
        text = (tmp_path / "base" / "manifest.json").read_text().replace('"config.json"', '"../secret"')
        (tmp_path / "base" / "manifest.json").write_text(text)

        assert manifest.files
        assert "outside the folder" in reasons_of(base)[0]


class TestBringingItToAVolume:
    def test_every_file_lies_below_the_volumes_root_and_the_manifest_last(self, tmp_path: Path) -> None:
        base, volume = make_plain_base(tmp_path / "base"), Noting(tmp_path / "volume")

        staged = stage_base(volume, base)

        assert staged == Base(REPO_ID, REVISION, f"bases/{REPO_ID}/{REVISION}")
        assert verify_folder(tmp_path / "volume" / staged.folder) == verify_folder(tmp_path / "base")
        assert volume.sent[-1] == f"{staged.folder}/manifest.json"
        assert staged.found_on(tmp_path / "volume").folder == str(tmp_path / "volume" / staged.folder)

    def test_what_is_there_already_is_not_sent_again(self, tmp_path: Path) -> None:
        base, volume = make_plain_base(tmp_path / "base"), Noting(tmp_path / "volume")
        staged = stage_base(volume, base)
        volume.sent.clear()

        assert stage_base(volume, base) == staged
        assert volume.sent == []

    def test_one_that_broke_off_goes_on_where_it_was(self, tmp_path: Path) -> None:
        base, volume = make_plain_base(tmp_path / "base"), Noting(tmp_path / "volume")
        key = stage_base(volume, base).folder
        volume.delete(f"{key}/manifest.json")
        (tmp_path / "volume" / key / "model.safetensors").write_bytes(b"half")
        volume.sent.clear()

        stage_base(volume, base)

        assert volume.sent == [f"{key}/model.safetensors", f"{key}/manifest.json"]

    def test_an_absolute_folder_stays_where_it_is(self, tmp_path: Path) -> None:
        base = make_plain_base(tmp_path / "base")

        assert base.found_on(tmp_path / "volume") == base


class Noting(FolderStore):
    """A volume that remembers what it was sent."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.sent: list[str] = []

    def put(self, key: str, source: Path | bytes) -> None:
        self.sent.append(key)
        super().put(key, source)


class TestVision:
    """A model that reads images describes its language model in a part of its own."""

    WORDS: ClassVar[dict[str, Any]] = {
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_attention_heads": 4,
        "num_hidden_layers": 2,
        "max_position_embeddings": 8192,
    }

    def make(self, folder: Path, **more: Any) -> Base:
        return make_plain_base(
            folder,
            architectures=["Idefics3ForConditionalGeneration"],
            text_config=self.WORDS,
            hidden_size=None,
            **({"extra": {"preprocessor_config.json": b"{}"}} | more),
        )

    def test_its_facts_are_those_of_its_language_model(self, tmp_path: Path) -> None:
        facts = inspect_base(self.make(tmp_path / "base"))

        assert (facts.context_length, facts.architecture) == (8192, "Idefics3ForConditionalGeneration")
        assert facts.linear_sizes[0] == (32, 32)

    def test_one_without_an_image_processor_is_refused(self, tmp_path: Path) -> None:
        (reason,) = reasons_of(self.make(tmp_path / "base", extra={}))

        assert reason.startswith("It holds no preprocessor_config.json.")

    def test_whether_it_reads_images_is_told_by_its_folder(self, data_dir: Path) -> None:
        self.make(get_settings().bases_dir / "vision")
        make_plain_base(get_settings().bases_dir / "text", revision="b" * 40)

        found = [reads_images(REPO_ID, revision) for revision in (REVISION, "b" * 40, "c" * 40)]

        assert found == [True, False, False]
