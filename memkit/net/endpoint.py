"""Where an endpoint's URL and key come from. What code says wins; the environment only fills in what it left out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from memkit.errors import InvalidConfig
from memkit.net.secret import Secret
from memkit.net.urls import BaseURL, check_base_url


@dataclass(frozen=True, slots=True)
class Access:
    """How a provider is reached."""

    default_url: str
    url_name: str = ""
    """Environment variable of the URL; "" for none."""
    key_names: tuple[str, ...] = ()
    """Environment variables of the key; without one, the default endpoint needs no key."""
    key_header: str = "authorization"
    """Header of the key; `authorization` takes it as a bearer token."""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    """Further headers of every request."""


OPENAI = Access("https://api.openai.com/v1", "OPENAI_BASE_URL", ("OPENAI_API_KEY",))


def resolve_endpoint(
    base_url: str | None, api_key: str | Secret | None, access: Access = OPENAI, *, allow_insecure: bool
) -> tuple[BaseURL, Secret | None]:
    """URL and key of one environment belong together: a key from the environment never goes to an endpoint that
    code names (other than the default one), or a stray variable would hand one provider's key to another."""
    named = base_url is not None
    found_url = os.environ.get(access.url_name) if access.url_name else None
    url = check_base_url(base_url or found_url or access.default_url, allow_insecure=allow_insecure)
    is_default = str(url) == access.default_url
    if api_key is None and (is_default or not named):
        for name in access.key_names:
            if found := os.environ.get(name):
                return url, Secret.header_safe(found, name)
    if api_key is None and is_default and access.key_names:
        raise InvalidConfig(
            f"there is no key for {url.host}",
            why=f"neither api_key= nor {' nor '.join(access.key_names)} is given",
            fix="pass api_key=, or base_url='http://127.0.0.1:PORT/v1' for a server of your own",
        )
    if isinstance(api_key, str):
        return url, Secret.header_safe(api_key, "api_key")
    return url, api_key
