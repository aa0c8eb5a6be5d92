"""What a queued run waits for, in words: a line for all of it, and a panel where a person can shorten it."""

from __future__ import annotations

from tensorant_app.services.run_details import RunDetails
from tensorant_app.services.waiting import Waiting, WaitsFor


def line_of(run: RunDetails, waiting: Waiting) -> str:
    """Beside the badge."""
    slots = f"{waiting.held} of {waiting.slots} slots are in use"
    at = f"{waiting.until:%H:%M} UTC" if waiting.until else ""
    match waiting.what:
        case WaitsFor.TIME:
            return f"Starts at {waiting.until:%Y-%m-%d %H:%M} UTC at the earliest"
        case WaitsFor.CAPACITY:
            return f"{run.sentence or 'No machine was free.'} It is asked for again at {at}"
        case WaitsFor.SLOT:
            return f"Waits for a free slot: {slots}"
        case WaitsFor.LOST_MACHINE:
            return f"Waits for its lost machine: {slots}"
        case WaitsFor.FENCE if at:
            return f"The next attempt starts at {at}, or as soon as the lost machine is proved gone"
        case WaitsFor.FENCE:
            return "Waits until it is known whether its machine exists"
    return run.sentence or "Checks run, then it waits for a slot"


def story_of(waiting: Waiting) -> str:
    """Why the next attempt does not simply start."""
    are = "is" if waiting.held == 1 else "are"
    when = f", and not before {waiting.until:%H:%M} UTC" if waiting.until else ""
    return (
        "The run lost its machine, and nothing has proved that it is gone. It may still cost money, so it keeps its slot: "
        f"{waiting.held} of {waiting.slots} {are} in use. The next attempt starts by itself once it is proved gone, or "
        f"with another free slot{when}. Look for the machine in RunPod's list, and delete it there if it is still listed."
    )
