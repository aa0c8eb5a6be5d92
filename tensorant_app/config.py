"""What Reflex is told: one port, exact origins, state in memory, nothing sent home."""

from __future__ import annotations

from typing import Any

import reflex as rx
from reflex_base.plugins.base import Plugin

from tensorant_app.theme import THEME

DOORS = ("/sign-in", "/set-up", "/new-password")
"""Pages of people who are not signed in: they have no state, so they open no websocket."""


class SameOriginPlugin(Plugin):
    """Lets the built pages talk to wherever they came from, and say so when that ends.

    The bundle holds `ws://localhost:8000`; Reflex swaps the host for the page's but not the port.
    """

    def pre_compile(self, **context: Any) -> None:
        context["add_modify_task"]("utils/state.js", patch_state_js)


def patch_state_js(source: str) -> str:
    """Fails where upstream changed, so that no half-patched frontend is ever built."""
    doors = ", ".join(f'"{door}"' for door in DOORS)
    return _replace_all(
        source,
        {
            "endpoint.hostname = frontend_hostname;": "endpoint.hostname = frontend_hostname;\n"
            "    if (!import.meta.env.DEV) endpoint.port = window.location.port;",
            'endpoint.port = ""; // Assume websocket is on https port via load balancer.': "",
            "export const isBackendDisabled = () => {": "export const isBackendDisabled = () => {\n"
            f'  if ([{doors}].includes(window.location.pathname.replace(/\\/$/, ""))) return true;',
            "    setConnectErrors([]);\n": "    setConnectErrors([]);\n    delete document.documentElement.dataset.connection;\n",
            "    window.clearTimeout(retry_timer);\n    retry_timer = window.setTimeout(": _SAY_WHY
            + "    window.clearTimeout(retry_timer);\n    retry_timer = window.setTimeout(",
        },
    )


# <html data-connection> is "ended" when the session is over and "lost" when nobody answers; the banners
# of components/connection.py show themselves by it. A blink while the console restarts says nothing.
_SAY_WHY = """    if (failed_attempts > 2) {
      fetch("/api/session", { cache: "no-store" })
        .then((answer) => (answer.status === 401 ? "ended" : "lost"))
        .catch(() => "lost")
        .then((word) => {
          if (!socket.current?.connected) document.documentElement.dataset.connection = word;
        });
    }
"""


def _replace_all(source: str, changes: dict[str, str]) -> str:
    for before, after in changes.items():
        if after and after in source:
            continue
        if source.count(before) != 1 and not (not after and before not in source):
            raise RuntimeError(f"Reflex's state.js has changed: {before!r} stands in it {source.count(before)} times.")
        source = source.replace(before, after)
    return source


config = rx.Config(
    app_name="tensorant_app",
    telemetry_enabled=False,
    show_built_with_reflex=False,
    state_manager_mode=rx.constants.StateManagerMode.MEMORY,
    # Nobody, until the web process says who: an empty list would let everybody in.
    cors_allowed_origins=("http://tensorant.invalid",),
    frontend_compression_formats=["gzip"],
    plugins=[SameOriginPlugin(), rx.plugins.RadixThemesPlugin(theme=THEME)],
    disable_plugins=[rx.plugins.SitemapPlugin],
)
