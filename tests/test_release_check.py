"""Versions and changelog, as `make release-check` judges them."""

from __future__ import annotations

import pytest

from memkit import __version__
from tests.release_check import ROOT, check_distributions, check_versions

GOOD = "# Changelog\n\n## [Unreleased]\n\n- x\n\n## [0.2.0] - 2026-12-01\n\n- y\n\n## [0.1.0] - 2026-11-01\n"


def test_a_changelog_in_order_is_let_pass() -> None:
    assert list(check_versions(GOOD, "0.2.0")) == []


@pytest.mark.parametrize(
    ("changelog", "says"),
    [
        (GOOD.replace("## [Unreleased]\n", ""), "Unreleased"),
        (GOOD.replace(" - 2026-12-01", ""), "no date"),
        (GOOD.replace("0.1.0", "0.3.0"), "do not fall"),
        (GOOD.replace("0.1.0", "0.2.0"), "do not fall"),
        (GOOD.replace("0.2.0", "0.2"), "no version"),
        (GOOD.replace("0.2.0", "0.3.0"), "__version__ is 0.2.0"),
    ],
)
def test_what_is_out_of_order_is_told(changelog: str, says: str) -> None:
    assert any(says in line for line in check_versions(changelog, "0.2.0"))


def test_a_package_of_its_own_asks_for_the_memkit_that_it_is_released_with() -> None:
    assert list(check_distributions(ROOT / "integrations", __version__)) == []
    assert any("memkit_env" in line for line in check_distributions(ROOT / "integrations", "9.9.9"))
