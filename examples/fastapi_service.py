"""A memory service for many users and several workers.

    pip install memkit fastapi uvicorn
    uvicorn fastapi_service:app --workers 4

Four processes share one store: turns are journaled before they are acknowledged, each user's turns are decided in
order, and what a killed worker left behind is taken over by the others.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

from fastapi import Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from memkit import AsyncMemory
from memkit.errors import Conflict, InvalidInput, MemkitError, NotFound


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with AsyncMemory(os.environ.get("MEMKIT_STORE", "./memory")) as memory:
        app.state.memory = memory
        yield


app = FastAPI(lifespan=lifespan)


def who(x_user: Annotated[str, Header()]) -> str:
    """Put your own authentication here: the user comes from the session, never from the body."""
    if not x_user:
        raise HTTPException(401)
    return x_user


User = Annotated[str, Depends(who)]


class Said(BaseModel):
    text: str
    message_id: str | None = None


class Rated(BaseModel):
    trace_id: str
    label: str


@app.post("/turns", status_code=202)
async def turn(said: Said, user: User) -> dict[str, str]:
    result = await app.state.memory.add(said.text, user_id=user, idempotency_key=said.message_id, wait=False)
    return {"trace_id": result.trace_id, "status": result.status}


@app.get("/context")
async def context(q: str, user: User) -> dict[str, str]:
    block = await app.state.memory.context(q, user_id=user)
    return {"trace_id": block.trace_id, "context": str(block)}


@app.post("/feedback")
async def feedback(rated: Rated, user: User) -> dict[str, str]:
    return {"feedback_id": await app.state.memory.feedback(rated.trace_id, label=rated.label, user_id=user)}


@app.delete("/me")
async def forget_me(user: User) -> dict[str, int]:
    return dict((await app.state.memory.erase(user_id=user)).counts)


STATUS = {NotFound: 404, Conflict: 409, InvalidInput: 422}
"""Of what sending again does not mend; for the rest, 503 says to come again later."""


@app.exception_handler(MemkitError)
async def explain(_: Request, error: MemkitError) -> JSONResponse:
    status = next((code for kind, code in STATUS.items() if isinstance(error, kind)), 503)
    return JSONResponse({"error": type(error).__name__, "message": str(error)}, status_code=status)
