"""Prompts that a project pins: each run answers them at its checkpoints, so that its progress can be read."""

from __future__ import annotations

from tensorant_app.domain.errors import Invalid

MOST = 8
LONGEST = 2_000
"""Characters of one."""


def read_prompts(text: str) -> list[str]:
    """One prompt a line, each once and in its order; or `Invalid`, which names the line."""
    lines = list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
    if len(lines) > MOST:
        raise Invalid({"prompts": f"At most {MOST} prompts can be pinned; these are {len(lines)}. Leave some out."})
    for number, line in enumerate(lines, 1):
        if len(line) > LONGEST:
            said = f"Prompt {number} has {len(line):,} characters; at most {LONGEST:,} are answered. Shorten it."
            raise Invalid({"prompts": said})
    return lines
