"""The one deterministic scorer: the same code at run time, in replay and in training.

`BankIndex` holds the rows of one bank, `rank` orders them for a `Query`, `why` says why in words, `render_context`
lays memories out for a prompt. Pure: no I/O, no clock, no randomness.
"""

from memkit.retrieval.context import ContextItem, Rendered, estimate_tokens, nonce_of, parse_context, render_context
from memkit.retrieval.index import BankIndex
from memkit.retrieval.query import Query
from memkit.retrieval.rank import Scored, rank
from memkit.retrieval.signals import SIGNALS, SIGNALS_VERSION, features
from memkit.retrieval.weights import DEFAULT, RANKINGS, TO_MANAGERS, RankerWeights
from memkit.retrieval.why import why
from memkit.text.words import embed_text

__all__ = [
    "DEFAULT",
    "RANKINGS",
    "SIGNALS",
    "SIGNALS_VERSION",
    "TO_MANAGERS",
    "BankIndex",
    "ContextItem",
    "Query",
    "RankerWeights",
    "Rendered",
    "Scored",
    "embed_text",
    "estimate_tokens",
    "features",
    "nonce_of",
    "parse_context",
    "rank",
    "render_context",
    "why",
]
