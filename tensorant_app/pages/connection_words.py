"""A connection in words: its volume, its month, and how long ago it was looked at."""

from __future__ import annotations

from dataclasses import dataclass

from tensorant_app.domain.connections import volume_month
from tensorant_app.pages.words import ago, exact
from tensorant_app.services.connecting import ConnectionView, VolumeFacts

_STANDARD = "STANDARD"


@dataclass(frozen=True)
class AccountCard:
    """One card of the page; `is_there` False: nothing is connected."""

    is_there: bool = False
    id: str = ""
    state: str = "unchecked"
    sentence: str = ""
    last_four: str = ""
    changed: str = ""
    checked: str = ""
    checked_exact: str = ""
    data_center: str = ""
    volume_id: str = ""
    volume: str = ""
    month: str = ""
    month_note: str = ""
    used_by: str = ""


NO_ACCOUNT = AccountCard()


def card_of(view: ConnectionView | None) -> AccountCard:
    if view is None:
        return NO_ACCOUNT
    return AccountCard(
        is_there=True,
        id=str(view.id),
        state=view.state.value,
        sentence=view.sentence,
        last_four=view.last_four,
        changed=f"Set {view.changed_at:%Y-%m-%d}",
        checked=ago(view.checked_at),
        checked_exact=exact(view.checked_at),
        data_center=view.shown.get("data_center", ""),
        volume_id=view.shown.get("volume_id", ""),
        volume=say_volume(view.volume),
        month=str(volume_month(view.volume.size_gb)) if view.volume else "",
        month_note=say_month(view.volume),
        used_by=", ".join(view.used_by),
    )


def say_volume(volume: VolumeFacts | None) -> str:
    if volume is None:
        return ""
    return f"{volume.name}, {volume.size_gb:,} GB, {volume.type.replace('_', ' ').lower()}"


def say_month(volume: VolumeFacts | None) -> str:
    """The estimate's source; a faster volume costs more than the list that is known here."""
    if volume is None:
        return ""
    if volume.type != _STANDARD:
        return "At least: it is not a standard volume, and RunPod's price for it is not known here"
    return "Whether it is used or not, by RunPod's list of November 2026"
