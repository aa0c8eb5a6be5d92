"""What a person can do about a run, in words: what may be pressed, and why the rest may not."""

from __future__ import annotations

from dataclasses import dataclass

from tensorant_app.domain.hyperparameters import show_number
from tensorant_app.domain.runs import AdapterUploadState
from tensorant_app.services.adapter_uploads import UploadedView
from tensorant_app.services.recoveries import Recovery

_UPLOADED = {
    AdapterUploadState.RECEIVING: "It is being received. Choose the same file again to go on where it stopped.",
    AdapterUploadState.CHECKING: "Every byte has arrived. The adapter is being checked.",
    AdapterUploadState.ACCEPTED: "The adapter was checked and taken.",
}


@dataclass(frozen=True)
class Ways:
    """The sentences say why not; an empty one means that it can be done now."""

    confirm_absent: str = "-"
    pause: str = "-"
    verify: str = "-"
    extend: str = "-"
    least: str = ""
    """Hours that a longer limit must be above."""
    twins: tuple[str, ...] = ()
    """Ids of machines of one name, where there are several."""
    is_pausing: bool = False
    is_verifying: bool = False
    is_pod_local: bool = False
    hand_in: str = ""
    """Where the zip is to be found, and how it is brought here."""
    next: str = "verify"
    """The sensible one of the ways out of *Needs recovery*: `verify`, `extend` or `cancel`."""
    uploaded: str = ""
    """How the file that was handed in is doing."""
    was_refused: bool = False


def ways_of(found: Recovery, uploaded: UploadedView | None) -> Ways:
    refused = uploaded is not None and uploaded.state is AdapterUploadState.REFUSED
    return Ways(
        confirm_absent=found.confirm_absent or "",
        pause=found.pause or "",
        verify=found.verify or "",
        extend=found.extend or "",
        least=show_number(found.least_hours),
        twins=tuple(found.machine_ids) if len(found.machine_ids) > 1 else (),
        is_pausing=found.is_pausing,
        is_verifying=found.is_verifying,
        is_pod_local=found.is_pod_local,
        hand_in=_hand_in(found),
        next=_next(found),
        uploaded=_say_uploaded(uploaded),
        was_refused=refused,
    )


def _next(found: Recovery) -> str:
    if found.is_pod_local:
        return "verify" if found.has_zip and found.has_disk else "cancel"
    if not found.was_searched:
        return "verify"
    return "cancel" if found.extend else "extend"


def _hand_in(found: Recovery) -> str:
    checked = "Every file in it is checked before it is taken."
    if not found.has_disk:
        return f"The Pod and its disk are gone. If you fetched /workspace/data/adapter.zip before, hand it in here. {checked}"
    if not found.has_zip:
        return (
            "The Pod has not said that its adapter is finished. If /workspace/data/adapter.zip lies there all the same, "
            f"hand it in here. {checked}"
        )
    what = "The adapter"
    if found.unfinished:
        what = f"The time was over before it was finished. The adapter of its newest checkpoint, step {found.unfinished:,},"
    return (
        f"{what} lies on the stopped Pod as /workspace/data/adapter.zip. Start the Pod in RunPod, without a GPU if it "
        "asks, open its terminal and send the file with runpodctl send /workspace/data/adapter.zip. Then hand it in here. "
        f"{checked} The Pod is deleted after that."
    )


def _say_uploaded(uploaded: UploadedView | None) -> str:
    if uploaded is None:
        return ""
    return uploaded.reason or _UPLOADED.get(uploaded.state, "")
