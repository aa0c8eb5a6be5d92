"""Calls to addresses that a member typed: pinned to what the name meant when it was looked up, and outside this network."""

from __future__ import annotations

import ipaddress
import json
import socket
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

_MOST_BYTES = 1024 * 1024
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Unreachable(Exception):
    """No answer that can be used; the message is a sentence without the address."""


def post_json(
    url: str,
    payload: object,
    *,
    seconds: float,
    is_private_allowed: bool = False,
    headers: Mapping[str, str] | None = None,
) -> Any:
    """The answer's JSON. No redirect is followed, no proxy or credential of this computer is used."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    address = resolve(parts.hostname, parts.port or (443 if parts.scheme == "https" else 80), is_private_allowed)
    host = f"[{address}]" if address.version == 6 else str(address)
    target = parts._replace(netloc=host if parts.port is None else f"{host}:{parts.port}").geturl()
    until = time.monotonic() + seconds
    own = {"host": parts.netloc, "accept": "application/json", "accept-encoding": "identity"}
    try:
        with (
            httpx.Client(trust_env=False, follow_redirects=False, timeout=seconds) as client,
            client.stream(
                "POST",
                target,
                json=payload,
                headers={**(headers or {}), **own},
                extensions={"sni_hostname": parts.hostname},
            ) as response,
        ):
            if response.status_code != 200:
                raise Unreachable(f"It answered with status {response.status_code}.")
            return json.loads(_read(response, until))
    except httpx.TimeoutException:
        raise Unreachable(f"It did not answer within {seconds:.0f} seconds.") from None
    except httpx.HTTPError as error:
        raise Unreachable(f"It could not be reached ({type(error).__name__}).") from None
    except (ValueError, RecursionError):
        raise Unreachable("Its answer is no JSON.") from None


def resolve(host: str, port: int, is_private_allowed: bool) -> Address:
    """One address of the host; refused where any of them lies inside a network that is not public."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise Unreachable("Its name is not known.") from None
    addresses = [ipaddress.ip_address(str(one[4][0]).split("%")[0]) for one in found]
    if not is_private_allowed and not all(map(is_public, addresses)):
        raise Unreachable("Its address is not a public one, and only the operator may allow that.")
    return addresses[0]


def is_public(address: Address) -> bool:
    """Also of an IPv4 address inside an IPv6 one."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast


def _read(response: httpx.Response, until: float) -> bytes:
    body = b""
    for piece in response.iter_raw():
        body += piece
        if len(body) > _MOST_BYTES:
            raise Unreachable("Its answer is longer than 1 MiB.")
        if time.monotonic() > until:
            raise Unreachable("Its answer took too long.")
    return body
