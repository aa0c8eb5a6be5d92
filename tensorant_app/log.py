"""Log lines to stderr, plain or JSON, with cookies and tokens taken out."""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
from datetime import UTC, datetime

from tensorant_app.settings import get_settings

HIDDEN = "[hidden]"

_TOKENS = re.compile(
    r"""
    \b(?:
        (?:hf|rpa|rps|gh[oprsu]|glpat|npm|pypi|xox[abprs]|tns)[_-][A-Za-z0-9_-]{8,}
      | github_pat_[A-Za-z0-9_]{8,}
      | sk-[A-Za-z0-9_-]{8,}
      | (?:AKIA|ASIA)[A-Z0-9]{12,}
      | eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?
      | gAAAAA[A-Za-z0-9_=-]{20,}
    )
    """,
    re.VERBOSE,
)
_HEADERS = re.compile(
    r"""(?ix)
    ((?:proxy-)?authorization|(?:set-)?cookie|x-api-key)
    (["']?\s*[:=,]\s*b?)
    (?: "[^"\n]*" | '[^'\n]*' | [^\n"'}\])]+ )
    """,
)
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
_PAIRS = re.compile(
    r"""(?ix)
    \b((?:[a-z0-9]+[_-])*(?:password|passwd|secret|token|api[_-]?key|access[_-]?key|secret[_-]?keys?))
    (["']?\s*[:=]\s*)
    (?: "[^"\n]+" | '[^'\n]+' | [^\s"',;&})\]]+ )
    """,
)
_URL_PASSWORDS = re.compile(r"(\w+://[^\s:/@]*):[^\s/@]+@")


def redact(text: str) -> str:
    """The same text with everything that opens a door replaced."""
    text = _HEADERS.sub(rf"\1\2{HIDDEN}", text)
    text = _BEARER.sub(rf"\1 {HIDDEN}", text)
    text = _TOKENS.sub(HIDDEN, text)
    text = _PAIRS.sub(rf"\1\2{HIDDEN}", text)
    return _URL_PASSWORDS.sub(rf"\1:{HIDDEN}@", text)


class Redact(logging.Filter):
    """Finishes the message and cleans it, the traceback too; belongs on every handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(record.getMessage()), None
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = redact(record.exc_text)
        if record.stack_info:
            record.stack_info = redact(record.stack_info)
        return True


class JsonLines(logging.Formatter):
    """One JSON object a line: at, level, logger, process, message, traceback."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "process": self._process,
            "message": record.getMessage(),
        }
        if record.exc_text:
            line["traceback"] = record.exc_text
        return json.dumps(line, ensure_ascii=False)


def set_up_logging(name: str) -> None:
    """All loggers of this process write to stderr; `name` says which process it is."""
    settings = get_settings()
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(Redact())
    if settings.log_format == "json":
        handler.setFormatter(JsonLines(name))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.log_level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    # They say every request and every connection; our own lines say what it was for.
    for chatty in ("httpx", "httpcore", "alembic.runtime.plugins", "dramatiq.worker"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, logging.root.level))


def log_failure(logger: logging.Logger, what: str) -> str:
    """Log the exception being handled; its id is what people are told and support asks for."""
    failure_id = secrets.token_hex(4)
    logger.exception("%s [%s]", what, failure_id)
    return failure_id
