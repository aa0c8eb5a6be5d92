"""Answers are those of plain greedy generation, and likelihoods those of a plain forward pass, only sooner."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.trainer.conftest import OPTIONS, WORDS, Volume, animal_rows
from trainer.base import load_model, load_tokenizer, stop_tokens
from trainer.chat import encode_prompt, encode_reply
from trainer.contract import (
    ANSWERS,
    EVENTS,
    JOB,
    STATUS,
    Answer,
    AttemptKeys,
    EvaluateJob,
    Outcome,
    Phase,
    Status,
    hash_file,
    load,
    load_lines,
    verify_folder,
)
from trainer.generate import Limits, Question, answer_all
from trainer.questions import answer_room, readable
from trainer.scores import exact_match, token_f1

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def tuned(volume: Volume, trained: AttemptKeys) -> Any:
    from peft import PeftModel

    return PeftModel.from_pretrained(load_model(volume.base), volume.root / trained.adapter).eval()


@pytest.fixture(scope="session")
def evaluated(volume: Volume, trained: AttemptKeys) -> AttemptKeys:
    keys = volume.add_evaluation("tuned", adapter=trained.adapter, labels=WORDS, max_new_tokens=12, batch_size=5)
    assert volume.run("evaluate", keys) == 0, volume.log(keys).read_text()
    return keys


def questions_of(volume: Volume, count: int = 9) -> list[Question]:
    tokenizer = load_tokenizer(volume.base)
    stops = stop_tokens(volume.base, tokenizer)
    questions = []
    for example in animal_rows(count, seed=6):
        before = example["messages"][:2]
        choices = [
            encode_reply(tokenizer, before, {"role": "assistant", "content": w}, stops) for w in (*WORDS, "a horse")
        ]
        questions.append(Question(encode_prompt(tokenizer, before), choices))
    return questions


def plainly(model: Any, question: Question, stops: list[int]) -> list[int]:
    ids = torch.tensor([question.prompt])
    whole = model.generate(input_ids=ids, do_sample=False, max_new_tokens=10, eos_token_id=stops, pad_token_id=2)
    return list(whole[0, len(question.prompt) :].tolist())


@pytest.mark.parametrize("batch_size", [1, 4, 16])
def test_answers_equal_those_of_plain_generation_row_by_row(volume: Volume, tuned: Any, batch_size: int) -> None:
    questions = questions_of(volume)
    free = [plainly(tuned, question, [2]) for question in questions]
    # A tiny model hardly ever stops by itself: a letter that some rows come to write is a stop token here.
    stops = sorted({2, free[0][3]})
    expected = [plainly(tuned, question, stops) for question in questions]

    replies = answer_all(tuned, questions, Limits(frozenset(stops), 10, batch_size), lambda done: None)

    assert [reply.ids for reply in replies] == [ids[:-1] if ids[-1] in stops else ids for ids in expected]
    assert [reply.stopped for reply in replies] == [ids[-1] in stops for ids in expected]
    assert len({len(ids) for ids in expected}) > 1


@pytest.mark.parametrize("batch_size", [1, 16])
def test_likelihoods_equal_those_of_a_plain_forward_pass(volume: Volume, tuned: Any, batch_size: int) -> None:
    questions = questions_of(volume)

    replies = answer_all(tuned, questions, Limits(frozenset({2}), 3, batch_size), lambda done: None)

    for question, reply in zip(questions, replies, strict=True):
        for choice, found in zip(question.choices, reply.likelihoods, strict=True):
            with torch.no_grad():
                logits = tuned(input_ids=torch.tensor([question.prompt + choice])).logits[0].log_softmax(-1)
            first = len(question.prompt) - 1
            wanted = sum(logits[first + i, token].item() for i, token in enumerate(choice))
            assert found == pytest.approx(wanted, abs=1e-4)


def test_one_prompt_alone_and_prompts_without_anything_in_common_are_answered(volume: Volume, tuned: Any) -> None:
    first, second = questions_of(volume, 2)
    other = Question([77, *second.prompt], [])
    limits = Limits(frozenset({2}), 6, 4)

    (alone,) = answer_all(tuned, [first], limits, lambda done: None)
    together = answer_all(tuned, [first, other], limits, lambda done: None)

    assert together[0].ids == alone.ids
    assert together[0].likelihoods == pytest.approx(alone.likelihoods, abs=1e-4)
    assert together[1].likelihoods == []
    assert answer_all(tuned, [], limits, lambda done: None) == []


def test_an_evaluation_writes_an_answer_for_each_row_in_order(volume: Volume, evaluated: AttemptKeys) -> None:
    result = volume.result(evaluated)
    path = volume.root / evaluated.outputs / ANSWERS
    answers = list(load_lines(Answer, path.read_text().splitlines(keepends=True)))

    assert result.outcome is Outcome.DONE
    assert (result.answers, result.answers_sha256) == (f"{evaluated.outputs}/{ANSWERS}", hash_file(path).sha256)
    assert [answer.row for answer in answers] == list(range(1, 14))
    assert [answer.expected for answer in answers] == [e["messages"][2]["content"] for e in animal_rows(13, seed=3)]
    assert {answer.likely for answer in answers} <= set(WORDS)
    assert result.scores["exact_match"] == sum(answer.exact for answer in answers) / 13
    assert result.scores["token_f1"] == pytest.approx(sum(answer.f1 for answer in answers) / 13)
    assert result.scores["likelihood"] == sum(answer.likely_correct or False for answer in answers) / 13


def test_an_answer_that_does_not_stop_ends_at_its_limit_is_counted_and_holds_up_no_other(
    volume: Volume, tokenizer: Any
) -> None:
    """The tiny base's stop token has no weight: it never ends by itself. Case sv-03."""
    keys = volume.add_evaluation("endless", max_new_tokens=5, batch_size=4)

    assert volume.run("evaluate", keys) == 0

    result = volume.result(keys)
    lines = (volume.root / keys.outputs / ANSWERS).read_text().splitlines(keepends=True)
    answers = list(load_lines(Answer, lines))
    endless = [answer for answer in answers if not answer.stopped]
    assert len(answers) == 13
    assert len(endless) > 6
    assert result.scores["did_not_stop"] == len(endless)
    assert not any("<|" in answer.answer for answer in answers)
    ids = tokenizer("The bell rings at noon. <|im_end|>", add_special_tokens=False)["input_ids"]
    assert readable(tokenizer, ids) == "The bell rings at noon."


def test_the_status_tells_how_many_rows_are_answered(volume: Volume, evaluated: AttemptKeys) -> None:
    status = load(Status, (volume.root / evaluated.outputs / STATUS).read_text())

    assert status.phase is Phase.ENDED
    assert status.attempt == 1


def test_training_shows_in_the_likelihood_of_labels(volume: Volume, evaluated: AttemptKeys) -> None:
    keys = volume.add_evaluation("base", labels=WORDS, max_new_tokens=4)

    assert volume.run("evaluate", keys) == 0

    assert volume.result(evaluated).scores["likelihood"] > volume.result(keys).scores["likelihood"]


def test_an_adapter_of_another_base_is_refused(volume: Volume, trained: AttemptKeys) -> None:
    keys = volume.add_evaluation("wrong-base", adapter=trained.adapter, base=replace(volume.base, revision="0" * 40))

    code = volume.run("evaluate", keys)

    failure = volume.result(keys).failure
    assert code == 60
    assert failure is not None
    assert failure.code == "adapter_invalid"
    assert "tests/tiny-llama" in failure.message


def test_a_prompt_beyond_the_context_length_is_named(volume: Volume) -> None:
    keys = volume.add_evaluation("long", context_length=70, max_new_tokens=8)

    volume.run("evaluate", keys)

    failure = volume.result(keys).failure
    assert failure is not None
    assert failure.code == "row_error"
    assert "of the test split: its prompt of" in failure.message


def test_white_space_makes_no_difference_to_an_exact_match_but_case_does() -> None:
    assert exact_match(" a  b\n", "a b")
    assert not exact_match("Animal", "animal")


@pytest.mark.parametrize(
    ("expected", "answer", "f1"),
    [("the cat sat", "The cat, sat.", 1.0), ("a b", "b c", 0.5), ("a", "b", 0.0), ("", "", 1.0), ("a", "", 0.0)],
)
def test_token_f1_counts_words_without_case_and_outer_punctuation(expected: str, answer: str, f1: float) -> None:
    assert token_f1(expected, answer) == f1


def test_a_model_with_sliding_windows_is_answered_and_scored_as_plainly(volume: Volume) -> None:
    from transformers import MistralConfig, MistralForCausalLM

    torch.manual_seed(5)
    config = MistralConfig(
        vocab_size=259, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=16, sliding_window=16, initializer_range=0.2, attn_implementation="sdpa",
    )  # fmt: skip
    model = MistralForCausalLM(config).eval()
    questions = questions_of(volume, 3)

    replies = answer_all(model, questions, Limits(frozenset({2}), 10, 16), lambda done: None)

    for question, reply in zip(questions, replies, strict=True):
        with torch.no_grad():
            whole = torch.tensor([question.prompt + question.choices[4]])
            logits = model(input_ids=whole).logits[0].log_softmax(-1)
        first = len(question.prompt) - 1
        wanted = sum(logits[first + i, token].item() for i, token in enumerate(question.choices[4]))
        assert reply.ids + [2] * reply.stopped == plainly(model, question, [2])
        assert reply.likelihoods[4] == pytest.approx(wanted, abs=1e-4)


def test_rouge_l_counts_the_longest_common_order_of_words() -> None:
    from trainer.scores import rouge_l

    assert rouge_l("the cat sat on the mat", "the cat on the mat") == pytest.approx(10 / 11)
    assert rouge_l("the cat sat on the mat", "mat the on sat cat the") == pytest.approx(2 * 3 / 12)
    assert rouge_l("снег белый", "белый снег") == pytest.approx(0.5)
    assert (rouge_l("", ""), rouge_l("a", "")) == (1.0, 0.0)


def test_the_longest_label_can_be_said_whole(volume: Volume) -> None:
    tokenizer = load_tokenizer(volume.base)
    label = "a label of many tokens"

    room = answer_room(256, ("yes", label), tokenizer)

    needed = len(tokenizer(label, add_special_tokens=False)["input_ids"]) + 1
    assert needed > 8
    assert needed <= room < needed + 8
    assert answer_room(256, (), tokenizer) == 256
    assert answer_room(3, ("yes", label), tokenizer) == 3


def test_an_adapter_of_a_quantised_base_is_scored_on_that_base(volume: Volume, evaluated: AttemptKeys) -> None:
    from trainer import evaluate

    run = volume.add_run("quantised-scored", options=replace(OPTIONS, method="qlora", epochs=1))
    assert volume.run("train", run) == 0, volume.log(run).read_text()
    keys = volume.add_evaluation("quantised", adapter=run.adapter)
    assert volume.run("evaluate", keys) == 0, volume.log(keys).read_text()

    (told,) = (line for line in volume.lines(keys, EVENTS) if line["kind"] == "evaluated")
    (plain,) = (line for line in volume.lines(evaluated, EVENTS) if line["kind"] == "evaluated")
    facts = verify_folder(volume.root / run.adapter).facts
    assert (facts["method"], facts["base_precision"]) == ("qlora", "nf4")
    assert (told["base_precision"], plain["base_precision"]) == ("nf4", "float32")
    job = load(EvaluateJob, (volume.root / keys.inputs / JOB).read_text())
    loaded = evaluate._load(job, volume.root, facts)
    kinds = {
        type(module.base_layer).__name__ for name, module in loaded.named_modules() if hasattr(module, "base_layer")
    }
    assert kinds == {"Linear4bit"}


def test_a_plain_base_never_loads_the_library_of_quantised_ones(volume: Volume, trained: AttemptKeys) -> None:
    code = (
        "import sys; from pathlib import Path; from trainer.base import load_model; from trainer.contract import Base, "
        "TrainOptions; from trainer.lora import add_lora, load_lora; folder, adapter = sys.argv[1:]; "
        "base = Base('', '', folder); add_lora(load_model(base), TrainOptions()); load_lora(load_model(base), Path(adapter)); "
        "print('bitsandbytes' in sys.modules); load_model(base, quantised=True); print('bitsandbytes' in sys.modules)"
    )
    command = [sys.executable, "-W", "ignore", "-c", code, volume.base.folder, str(volume.root / trained.adapter)]

    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)

    assert ended.stdout.split() == ["False", "True"]
