"""Make `glosses.jsonl` from WordNet's noun glosses: python make_glosses.py /path/to/data.noun > glosses.jsonl"""

from __future__ import annotations

import json
import random
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

CATEGORIES = {
    "04": "act",
    "05": "animal",
    "06": "artifact",
    "08": "body",
    "10": "communication",
    "13": "food",
    "15": "location",
    "18": "person",
    "20": "plant",
    "27": "substance",
}
"""WordNet's file number → our label."""
ROWS_OF_EACH = 130
SHORTEST, LONGEST = 4, 20
"""Words of a gloss."""
SEED = 42
UNSEEMLY = re.compile(
    r"sex|penis|vagin|genital|obscen|vulgar|offensive|disparag|derogat|slur|lasciv|prostitut|rape\b|incest|erotic"
    r"|excre|feces|semen|masturb|murder|suicid|nazi|negro|jew|homosex|breast|buttock|urin|slang",
    re.IGNORECASE,
)
"""Left out, since this file is for showing around."""
PROMPT = (
    "You sort dictionary definitions. Answer with exactly one word and nothing else: the category of the thing that is "
    "defined. The categories are act, animal, artifact, body, communication, food, location, person, plant, substance."
)


def main(source: Path) -> None:
    by_label = read_glosses(source)
    draw = random.Random(SEED)
    pairs = [(gloss, label) for label, glosses in by_label.items() for gloss in draw.sample(glosses, ROWS_OF_EACH)]
    draw.shuffle(pairs)
    for gloss, label in pairs:
        said = {"system": PROMPT, "user": gloss, "assistant": label}
        messages = [{"role": role, "content": content} for role, content in said.items()]
        print(json.dumps({"messages": messages}, ensure_ascii=False))


def read_glosses(source: Path) -> dict[str, list[str]]:
    """Label → its usable glosses, sorted; a gloss that stands twice, anywhere in the file, is left out."""
    found: dict[str, list[str]] = defaultdict(list)
    seen: Counter[str] = Counter()
    for line in source.read_text(encoding="latin-1").splitlines():
        if line.startswith(" "):
            continue  # The licence, at the top of the file.
        gloss = clean(line.partition(" | ")[2])
        seen[gloss.casefold()] += 1
        label = CATEGORIES.get(line.split()[1])
        if label and is_usable(gloss, label):
            found[label].append(gloss)
    return {label: sorted(g for g in found[label] if seen[g.casefold()] == 1) for label in CATEGORIES.values()}


def clean(gloss: str) -> str:
    """Without examples in quotation marks and surplus blanks."""
    without_examples = re.sub(r'["`].*', "", gloss)
    return " ".join(without_examples.split()).rstrip(" ;:,-")


def is_usable(gloss: str, label: str) -> bool:
    """Of fair length, plain and seemly, and not giving its own label away."""
    is_barred = UNSEEMLY.search(gloss) or re.search(rf"\b{label}(s|es)?\b", gloss, re.IGNORECASE)
    is_plain = re.fullmatch(r"(?!of |in |on |at |from )[A-Za-z0-9 ,;:.'()/-]+", gloss)
    is_whole = gloss.count("(") == gloss.count(")") and SHORTEST <= len(gloss.split()) <= LONGEST
    return bool(is_plain) and is_whole and not is_barred


if __name__ == "__main__":
    main(Path(sys.argv[1]))
