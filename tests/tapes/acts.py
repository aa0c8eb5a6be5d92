"""What an event's words ask for: which button of the console, or what befalls its server."""

from __future__ import annotations

import re
from enum import StrEnum


class Act(StrEnum):
    """One thing that somebody does, or that happens to the console."""

    LAUNCH = "launch"
    DRAFT_AGAIN = "draft_again"
    CANCEL = "cancel"
    CONFIRM_ABSENT = "confirm_absent"
    PAUSE = "pause"
    RESUME = "resume"
    EXTEND = "extend"
    VERIFY = "verify"
    RETRY_CLEANUP = "retry_cleanup"
    TERMINATE = "terminate"
    """A person ends a machine that nothing here works with; the text names its id."""
    SAVE_KEY = "save_key"
    RESTART = "restart"
    """The console's processes die, and start again."""
    OFF = "off"
    """The console does not run until a time that the text names, or until `ON`."""
    ON = "on"
    CUT = "cut"
    """No line leads from the console to the provider, for a time."""
    CLOCK = "clock"
    """The server's clock is set."""
    WATCH = "watch"
    """Somebody has the run's page open, so that its machine is heard often."""
    FINISH = "finish"
    """The trainer ends well."""


_WHO = r"\b(owner|admin|member|user|operator|person|somebody|someone|colleague|team|she|he|they)\b.*"
_SERVER = r"\b(console|server|worker|supervisor|laptop|computer|process(es)?|redis|database)\b.*"
_PATTERNS: tuple[tuple[Act, str], ...] = (
    (Act.FINISH, r"^finished$"),
    (Act.WATCH, r"\b(opens?|watch(es)?|looks? at)\b.*\bpage\b"),
    (Act.CONFIRM_ABSENT, r"confirm\w*\b.*\babsent"),
    (Act.RETRY_CLEANUP, r"retr(y|ies)\b.*\bclean"),
    (
        Act.SAVE_KEY,
        r"\b(stores?|stored|saves?|saved|enters?|entered|gives?|adds?|sets?|puts?)\b.*\bkey\b|^\s*(\+\S+\s+)?new key\b",
    ),
    (Act.CLOCK, r"\bclocks?\b.*\b(set|jumps?|goes|go|moved?|runs?|put|ahead|back|forward)\b"),
    (Act.CUT, r"\b(network|internet|connection|line|provider|api)\b.*\b(down|cut|gone|lost|unreachable|off)\b"),
    (Act.ON, _SERVER + r"\b(back|up again|on again|returns?|starts? again|is started|comes up)\b"),
    (Act.OFF, _SERVER + r"\b(off|down|asleep|sleeps?|stopped|not running|hangs?)\b"),
    (Act.RESTART, _SERVER + r"\b(kill\w*|restart\w*|crash\w*|dies|died|reboot\w*)\b"),
    (Act.EXTEND, _WHO + r"(longer|extends?|raises?\b.*\b(runtime|limit))"),
    (Act.TERMINATE, r"\b(owner|admin|member|user|somebody|someone|person)\b.*\b(terminates?|presses terminate)\b"),
    (Act.CANCEL, r"\bcancels?\b|\b(owner|admin|member|user|operator)\b.*\b(deletes? the project|stops? the run)"),
    (Act.RESUME, r"\bresumes?\b"),
    (Act.PAUSE, r"\bpauses?\b"),
    (Act.VERIFY, r"\bverif(y|ies)\b"),
    (Act.LAUNCH, _WHO + r"\b(launch(es)?|tries again|starts? (it|the run)( again)?)\b"),
    (Act.DRAFT_AGAIN, _WHO + r"\bretry draft\b"),
    (Act.LAUNCH, r"^\W*(\+\S+\s*:?\s*)?launch(es|ed)?\b(?! (answer|request|reply|call))"),
)


def act_in(text: str) -> Act | None:
    """None where a text only tells what the replies show anyway."""
    words = text.lower()
    # What did not come about, or only may, is nobody's act.
    if re.search(r"\b(nobody|no one|does not|doesn't|without)\b", words):
        return None
    return next((act for act, pattern in _PATTERNS if re.search(pattern, words)), None)
