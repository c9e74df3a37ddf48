"""A web service that is in a mesh: MESH=127.0.0.1:9999 uvicorn web_service:app."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from peermesh import aio


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with aio.Endpoint(name="web") as endpoint:
        if "MESH" in os.environ and not (outcome := await endpoint.peer(os.environ["MESH"])):
            raise RuntimeError(outcome.reason)
        app.state.endpoint = endpoint
        app.state.visits = await endpoint.attach_clone("visits")
        yield  # Here the service runs; SIGTERM ends it, and the endpoint in order after it.


app = FastAPI(lifespan=lifespan)


@app.post("/visits/{page}")
async def visit(page: str) -> int:
    receipt = await app.state.visits.increment(page)
    await app.state.endpoint.publish("/visits", page)
    await receipt.applied()
    return await app.state.visits.not_before(receipt).get(page)
