from __future__ import annotations

import pytest

from memkit_train.errors import BadRow, TrainError
from memkit_train.rows import Row, TokenRow


@pytest.mark.parametrize(
    "make",
    [
        lambda: Row((), (1,), None, 1.0),
        lambda: Row((1,), (), None, 1.0),
        lambda: Row((1,), (2, 3), (-1.0,), 1.0),
        lambda: Row((1,), (2, 3), None, (1.0,)),
        lambda: Row((1,), (2,), None, float("nan")),
        lambda: Row((1,), (2,), (float("inf"),), 1.0),
        lambda: TokenRow((1,), (2,), weight=-1.0),
        lambda: TokenRow((1,), (2,), reward=float("nan")),
        lambda: TokenRow((1,), ()),
    ],
)
def test_rows_that_contradict_themselves_are_refused(make: object) -> None:
    with pytest.raises(BadRow) as caught:
        make()  # type: ignore[operator]
    assert isinstance(caught.value, TrainError)


def test_a_row_counts_all_its_tokens() -> None:
    assert Row((1, 2), (3, 4, 5), None, 0.5).tokens == 5
