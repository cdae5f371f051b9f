"""Candidates from a very large bank, by meaning and by words, without looking at anybody else's rows.

LanceDB's own BM25 weighs words over the whole table, so another tenant's rows would move a user's ranking; and a
vector index loses up to half of the neighbours under a scope filter. Hence: exact search, and word rarity counted
over the scoped rows, with Arrow's string kernels.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from memkit.filters import Condition
from memkit.store import schema as layout
from memkit.store.compile import among, compile_condition, equals, every
from memkit.store.lance import Handle

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_WORD = re.compile(r"\w{2,}")
MAX_WORDS = 32


def preselect(
    handle: Handle, scope: Any, vector: NDArray[np.float32] | None, text: str, limit: int, condition: Condition
) -> list[str]:
    """Ids of at most `2 * limit` live rows of `scope`, and all that stand, sorted. `handle` stays at one version
    meanwhile."""
    pushed, complete = compile_condition(condition)
    live = every([scope, equals("deleted", False), *([] if pushed is None else [pushed])])
    if not complete:
        # What SQL cannot say is decided row by row; the vector search is then confined to the rows that passed.
        columns = layout.present_columns(handle.schema, layout.SCALARS)
        matching = _matching(handle.search().where(live).select(columns).to_arrow(), condition)
        if len(matching) <= limit:
            return sorted(matching)
        live = every([live, among("id", sorted(matching))])
    return sorted(
        {*_standing(handle, live), *_nearest(handle, live, vector, limit), *_wordiest(handle, live, text, limit)}
    )


def _standing(handle: Handle, live: Any) -> list[str]:
    if "standing" not in handle.schema.names:
        return []
    found = handle.search().where(every([live, equals("standing", True)])).select(["id"]).to_arrow()
    return found.column("id").to_pylist()


def _nearest(handle: Handle, live: Any, vector: NDArray[np.float32] | None, limit: int) -> list[str]:
    if vector is None or not float(abs(vector).max()):
        return []
    query = handle.search(vector, vector_column_name="vector").distance_type("dot").bypass_vector_index()
    found = query.where(live, prefilter=True).select(["id", "seq", "_distance"]).limit(limit).to_arrow()
    return found.column("id").to_pylist()


def _wordiest(handle: Handle, live: Any, text: str, limit: int) -> list[str]:
    import numpy as np
    import pyarrow.compute

    words = sorted(set(_WORD.findall(text.casefold())))[:MAX_WORDS]
    if not words:
        return []
    found = handle.search().where(live).select(["id", "seq", "text"]).to_arrow()
    kernels: Any = pyarrow.compute
    lowered = kernels.utf8_lower(found.column("text"))
    scores = np.zeros(found.num_rows)
    for word in words:
        hits = np.asarray(kernels.match_substring(lowered, word).fill_null(False))
        count = int(hits.sum())
        if count:
            scores += hits * math.log(1 + found.num_rows / count)
    ids, seqs = found.column("id").to_pylist(), found.column("seq").to_numpy()
    order = np.lexsort((seqs, -scores))[:limit]
    return [ids[i] for i in order if scores[i] > 0]


def _matching(found: Any, condition: Condition) -> list[str]:
    records = map(layout.record_of, layout.scalars_of(found))
    return [record.id for record in records if condition.matches(record)]
