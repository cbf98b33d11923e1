"""The AWS services with a model inside, on loopback: Bedrock Runtime, Bedrock Agent (a Knowledge Base) and Comprehend.

Runs in .local/venv-ai as `python -m local.ai_server PORT TOKENIZER`. Models are loaded once here, not per function.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import anyio
import anyio.to_thread
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from local.aws_wire import COMPREHEND_TARGET, AwsError, embedding_answer, json_object, text_to_embed, text_to_search
from local.converse import NO_MODEL, chat_request, converse_answer
from local.embedder import DIMENSIONS, MODEL_ID, MiniLm
from local.faults import Faults
from local.knowledge_base import KnowledgeBase, Place
from local.layout import HOST
from local.personal_data import PersonalDataEngine

log = logging.getLogger("ai-server")
CHAT_SECONDS = 600.0
JOB_SECONDS = 2.0
Answer = TypeVar("Answer")
Operation = Callable[[Request], Awaitable[Response]]


class Models:
    """What is loaded, and how many threads may compute at once."""

    def __init__(self, tokenizer: Path) -> None:
        self.embedder = MiniLm(tokenizer)
        self.personal_data = PersonalDataEngine()
        self._threads = anyio.CapacityLimiter(os.cpu_count() or 2)

    async def run(self, compute: Callable[..., Answer], *arguments: Any) -> Answer:
        return await anyio.to_thread.run_sync(partial(compute, *arguments), limiter=self._threads)


class AiServer:
    """The routes."""

    def __init__(self, models: Models, *, chat_url: str, chat_model: str, place: Place | None, job_seconds: float):
        self._models = models
        self._faults = Faults(job_seconds=job_seconds)
        self._knowledge = place and KnowledgeBase(
            place, embed=models.embedder.embed, run=models.run, faults=self._faults
        )
        self._chat_url = chat_url.rstrip("/")
        self._chat_model = chat_model
        self._chat = httpx.AsyncClient(timeout=CHAT_SECONDS, trust_env=False)

    def application(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/health", self.health),
                Route("/control/faults", self.set_faults, methods=["POST"]),
                Route("/model/{model:path}/invoke", self._service(self.embed), methods=["POST"]),
                Route("/model/{model:path}/converse", self._service(self.converse), methods=["POST"]),
                Route("/", self._service(self.comprehend), methods=["POST"]),
                *(self._knowledge.routes(self._service) if self._knowledge else []),
            ]
        )

    async def health(self, request: Request) -> Response:
        told = {"ready": True, "chat": bool(self._chat_url), "knowledge_base": self._knowledge is not None}
        return JSONResponse(told | self._faults.told())

    async def set_faults(self, request: Request) -> Response:
        wrong = self._faults.set(json_object(await request.body()))
        if wrong:
            return JSONResponse({"message": wrong}, status_code=400)
        return JSONResponse(self._faults.told())

    def _service(self, operation: Operation) -> Operation:
        """Errors in the services' own shape; a fault of ours as their internal error, without its text."""

        async def answer(request: Request) -> Response:
            try:
                self._faults.check()
                return await operation(request)
            except AwsError as error:
                return JSONResponse(error.body, status_code=error.status, headers=error.headers)
            except Exception as error:
                # The traceback may hold the caller's text; its class and place do not.
                log.error("%s failed: %s", operation.__name__, type(error).__name__)  # noqa: TRY400
                fault = AwsError("InternalServerException", "the local AI server failed; its log names the error")
                return JSONResponse(fault.body, status_code=fault.status, headers=fault.headers)

        return answer

    async def embed(self, request: Request) -> Response:
        if unquote(request.path_params["model"]) != MODEL_ID:
            raise AwsError(
                "ValidationException", f"The provided model identifier is invalid: only {MODEL_ID} runs here."
            )
        text = text_to_embed(json_object(await request.body()), dimensions=DIMENSIONS)
        vector = await self._models.run(self._models.embedder.embed, text)
        return JSONResponse(embedding_answer(vector, self._models.embedder.count_tokens(text)))

    async def comprehend(self, request: Request) -> Response:
        target = request.headers.get("x-amz-target", "")
        if target != f"{COMPREHEND_TARGET}DetectPiiEntities":
            raise AwsError("UnknownOperationException", "only DetectPiiEntities of Comprehend runs here")
        text, language = text_to_search(json_object(await request.body()))
        found = await self._models.run(self._models.personal_data.detect, text, language)
        body = json.dumps({"Entities": found})
        return Response(body, media_type="application/x-amz-json-1.1")

    async def converse(self, request: Request) -> Response:
        asked = json_object(await request.body())
        if not self._chat_url:
            raise AwsError("ValidationException", NO_MODEL)
        model = self._chat_model or unquote(request.path_params["model"])
        started = time.monotonic()
        answer = await self._complete(chat_request(model, asked))
        milliseconds = int((time.monotonic() - started) * 1000)
        return JSONResponse(converse_answer(asked, answer, milliseconds=milliseconds))

    async def _complete(self, body: dict[str, Any]) -> dict[str, Any]:
        try:
            answer = await self._chat.post(f"{self._chat_url}/chat/completions", json=body)
        except httpx.TimeoutException:
            raise AwsError("ModelTimeoutException", "the chat server took too long") from None
        except httpx.HTTPError:
            raise AwsError(
                "ServiceUnavailableException", "the chat server of AGENT_MEMORY_LLM_URL can't be reached"
            ) from None
        if answer.status_code == 429:
            raise AwsError("ThrottlingException", "the chat server is busy")
        if answer.status_code >= 500:
            raise AwsError("ServiceUnavailableException", f"the chat server answered {answer.status_code}")
        if answer.status_code >= 400:
            raise AwsError("ValidationException", f"the chat server refused the request with {answer.status_code}")
        try:
            value = answer.json()
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise AwsError("ModelErrorException", "the chat server answered with something else than a JSON object")
        return value


def main(port: int, tokenizer: Path) -> None:
    server = AiServer(
        Models(tokenizer),
        chat_url=os.environ.get("AGENT_MEMORY_LLM_URL", ""),
        chat_model=os.environ.get("AGENT_MEMORY_LLM_MODEL", ""),
        place=Place.from_environment(),
        job_seconds=float(os.environ.get("AI_SERVER_INGESTION_SECONDS") or JOB_SECONDS),
    )
    bind = os.environ.get("AI_SERVER_HOST", HOST)
    uvicorn.run(server.application(), host=bind, port=port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
