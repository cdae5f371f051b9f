"""Where an endpoint's URL and key come from. What code says wins; the environment only fills in what it left out."""

from __future__ import annotations

import os

from memkit.errors import InvalidConfig
from memkit.net.secret import Secret
from memkit.net.urls import BaseURL, check_base_url


def resolve_endpoint(
    base_url: str | None, api_key: str | Secret | None, *, default_url: str, allow_insecure: bool
) -> tuple[BaseURL, Secret | None]:
    """OPENAI_BASE_URL and OPENAI_API_KEY belong together: a key from the environment never goes to an endpoint that
    code names (other than the default one), or a stray variable would hand one provider's key to another."""
    named = base_url is not None
    url = check_base_url(base_url or os.environ.get("OPENAI_BASE_URL") or default_url, allow_insecure=allow_insecure)
    is_default = str(url) == default_url
    if api_key is None and (is_default or not named) and (found := os.environ.get("OPENAI_API_KEY")):
        return url, Secret.header_safe(found, "OPENAI_API_KEY")
    if api_key is None and is_default:
        raise InvalidConfig(
            f"there is no key for {url.host}",
            why="neither api_key= nor OPENAI_API_KEY is given",
            fix="pass api_key=, or base_url='http://127.0.0.1:PORT/v1' for a server of your own",
        )
    if isinstance(api_key, str):
        return url, Secret.header_safe(api_key, "api_key")
    return url, api_key
