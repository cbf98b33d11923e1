"""The index of one entry of agentcoreMemories in S3, and the notes that nights write beside it."""

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from botocore.exceptions import ClientError
from pydantic import ValidationError

from agent_memory.aws.failures import translating
from agent_memory.aws.missing import is_missing
from agent_memory.aws.s3_state import S3State
from agent_memory.contract import AGENTCORE_PREFIX
from agent_memory.domain.agentcore_index import Note, RecordIndex, read_index
from agent_memory.domain.errors import StoreBusyError

SIDE_BY_SIDE = 16


class S3RecordBook:
    """Ids, dates and namespaces of one entry; no content."""

    def __init__(self, client: Any, *, bucket: str, name: str) -> None:
        self._client = client
        self._bucket = bucket
        self._notes = f"{AGENTCORE_PREFIX}{name}/notes/"
        self._state = S3State(client, bucket=bucket, key=f"{AGENTCORE_PREFIX}{name}/index.json.gz")
        self._tag: str | None = None

    def index(self) -> RecordIndex:
        """The index; an empty one when there is none that can be read."""
        state = self._state.read()
        self._tag = state.tag
        return read_index(state.body)

    def keep(self, index: RecordIndex) -> None:
        """Write the index over the one that was read. Raises StoreBusyError: another night wrote it since."""
        body = index.model_dump_json(exclude_defaults=True).encode()
        if not self._state.write(body, over=self._tag):
            raise StoreBusyError("the index of a memory was written by another night")

    def note(self, note: Note) -> None:
        """Write a note, over what was noted of the same name."""
        with translating("s3:PutObject on the AgentCore bucket"):
            self._client.put_object(Bucket=self._bucket, Key=self._key(note), Body=note.model_dump_json().encode())

    def notes(self) -> Sequence[Note]:
        """All notes that no refresh has taken in, every page."""
        with translating("s3:ListBucket on the AgentCore bucket"):
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._notes)
            keys = [found["Key"] for page in pages for found in page.get("Contents", ())]
        with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
            found = list(pool.map(self._read, keys))
        return [note for note in found if note is not None]

    def forget(self, notes: Sequence[Note]) -> None:
        """Remove notes that the index holds now; one that was written again since stays."""
        for note in notes:
            key = self._key(note)
            if self._read(key) == note:
                with translating("s3:DeleteObject on the AgentCore bucket"):
                    self._client.delete_object(Bucket=self._bucket, Key=key)

    def _key(self, note: Note) -> str:
        return f"{self._notes}{hashlib.sha256(f'{note.place}/{note.name}'.encode()).hexdigest()[:40]}.json"

    def _read(self, key: str) -> Note | None:
        with translating("s3:GetObject on the AgentCore bucket"):
            try:
                body = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read()
            except ClientError as error:
                if is_missing(self._client, error, bucket=self._bucket, key=key):
                    return None
                raise
        try:
            return Note.model_validate(json.loads(body))
        except (ValueError, RecursionError, ValidationError):
            # A note that can't be read marks nothing: its records stay what they are.
            return None
