"""A stand-in for the interpreter of the trainer: takes the real attempt, starts a child of its own, and sleeps.

Called as `sleeper -m trainer train --volume . --job runs/<id>/in/<n>/job.json`; the job's id says how to behave.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from trainer.attempt import take
from trainer.contract import AttemptKeys


def main() -> int:
    key = Path(sys.argv[-1])
    subject, number = key.parts[1], int(key.parts[3])
    if subject == "broken":
        print("ModuleNotFoundError: No module named 'torch'", file=sys.stderr)
        return 1
    attempt = take(Path.cwd(), AttemptKeys.of("runs", subject, number), machine=f"tune-{subject}", number=number)
    if attempt is None:
        return 0
    child = subprocess.Popen(["sleep", "600"])
    (attempt.outputs / "child").write_text(str(child.pid))
    if subject == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
    return 0


if __name__ == "__main__":
    sys.exit(main())
