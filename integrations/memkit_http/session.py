"""One token, and what follows from it: the cookie of a browser, and the seal that its forms carry.

The token is told once, to whoever starts the server. A browser trades it for a cookie that scripts cannot read and
other sites cannot send; a form carries a seal made with the same secret, so that nobody who lacks it can post one."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping

from memkit_http.problems import Declined


class BrowserSession:
    def __init__(self, token: str | None = None) -> None:
        self.token = token or secrets.token_urlsafe(32)

    @property
    def cookie(self) -> str:
        return self._made("cookie")

    @property
    def seal(self) -> str:
        return self._made("form")

    def admits(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token.encode())

    def knows(self, cookie: str | None, authorization: str | None) -> bool:
        """A browser with our cookie, or a program with the token itself."""
        scheme, _, token = (authorization or "").partition(" ")
        if scheme.lower() == "bearer":
            return self.admits(token.strip())
        return cookie is not None and hmac.compare_digest(cookie.encode(), self.cookie.encode())

    def check_form(self, form: Mapping[str, str], authorization: str | None) -> None:
        """A program that shows the token needs no seal: no browser adds that header by itself."""
        if authorization is None and not hmac.compare_digest(form.get("seal", "").encode(), self.seal.encode()):
            raise Declined(403, "the form is not one of ours, or of an earlier start", fix="load the page again")

    def _made(self, purpose: str) -> str:
        return hmac.new(self.token.encode(), purpose.encode(), hashlib.sha256).hexdigest()
