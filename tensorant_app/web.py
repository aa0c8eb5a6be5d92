"""The web process: `python -m tensorant_app.web`. Pages, websocket and API on one port, without Node."""

from __future__ import annotations

import importlib
import logging
import os
import socket
import sys
from pathlib import Path

from tensorant_app.db import migrate
from tensorant_app.domain.errors import Conflict, TensorantError
from tensorant_app.log import set_up_logging
from tensorant_app.services import links
from tensorant_app.settings import Settings, get_settings

FRONTEND = Path(__file__).resolve().parent / "_web"
_DRAIN_SECONDS = 5

_log = logging.getLogger(__name__)


def serve(frontend: Path = FRONTEND) -> None:
    """Until SIGTERM or SIGINT."""
    import uvicorn

    settings = get_settings()
    migrate.require_current()
    links.require_safe_address()
    require_frontend(frontend)
    listening = bind(settings)
    prepare_environment(settings, frontend)
    root = importlib.import_module("tensorant_app.tensorant_app")
    root.send_hints()
    config = uvicorn.Config(
        root.app(),
        log_config=None,
        access_log=False,
        server_header=False,
        ws_max_size=8 * 1024 * 1024,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        # Only who is calling is taken from a proxy; whether it is https stands in the origin.
        proxy_headers=settings.trusted_proxy is not None,
        forwarded_allow_ips=settings.trusted_proxy or "",
    )
    _log.info("The console is open at %s", settings.address)
    uvicorn.Server(config).run(sockets=[listening])


def prepare_environment(settings: Settings, frontend: Path) -> None:
    """What Reflex reads from the environment, from the working folder, and nowhere else."""
    os.environ |= {
        "__REFLEX_SKIP_COMPILE": "true",
        "__REFLEX_MOUNT_FRONTEND_COMPILED_APP": "true",
        "REFLEX_ENV_MODE": "prod",
        "REFLEX_WEB_WORKDIR": str(frontend),
        "REFLEX_CORS_ALLOWED_ORIGINS": ",".join(settings.origins),
        "REFLEX_DIR": str(settings.web_dir / "reflex"),
        "REFLEX_UPLOADED_FILES_DIR": str(settings.web_dir / "unused"),
        "REFLEX_STATES_WORKDIR": str(settings.web_dir / "states"),
        "REFLEX_TELEMETRY_ENABLED": "false",
        "REFLEX_CHECK_LATEST_VERSION": "false",
    }
    # A codespace's variables would send people to another host; a Redis of ours is not for Reflex's states.
    for name in ("CODESPACE_NAME", "GITHUB_CODESPACES_PORT_FORWARDING_DOMAIN", "REFLEX_REDIS_URL", "REDIS_URL"):
        os.environ.pop(name, None)
    (settings.web_dir / "rxconfig.py").write_text("from tensorant_app.config import config as config\n")
    os.chdir(settings.web_dir)
    if str(settings.web_dir) not in sys.path:
        sys.path.insert(0, str(settings.web_dir))


def require_startable() -> None:
    """Raise what would keep this process from serving; the supervisor asks before it starts anything."""
    links.require_safe_address()
    require_frontend()
    bind(get_settings()).close()


def bind(settings: Settings) -> socket.socket:
    """The one port, or a sentence."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise Conflict(
            f"The console cannot listen on {settings.host}:{settings.port} ({error.strerror}). "
            "Choose another port: `tensorant up --port 8021`, or set TENSORANT_PORT."
        ) from None
    return listening


def require_frontend(frontend: Path = FRONTEND) -> None:
    if not (frontend / "build" / "client" / "index.html").is_file():
        raise Conflict(f"The pages are not built: {frontend} is empty. Run `make frontend` once.")


def main() -> None:
    set_up_logging("web")
    for chatty in ("uvicorn.error", "engineio", "socketio", "alembic.runtime.migration"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    try:
        serve()
    except TensorantError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
