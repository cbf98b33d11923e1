"""Queues that wait for a person: refused events, and the dead letters of the queues that functions read."""

from collections.abc import Iterator, Mapping
from typing import Any

from agent_memory.aws.failures import translating
from agent_memory.domain.dead_letters import Letter, letter
from agent_memory.domain.intake import message_of

BATCH = 10
# While a letter is looked at it is hidden from others; when the looking dies, it comes back by itself.
HIDDEN_SECONDS = 120


class RefusedQueue:
    """Keeps refusals for a person to look at. The queue is encrypted; it may hold what an agent sent."""

    def __init__(self, client: Any, *, url: str) -> None:
        self._client = client
        self._url = url

    def put(self, refusal: Mapping[str, object]) -> None:
        """Keep one refusal."""
        with translating("sqs:SendMessage to the refused queue"):
            self._client.send_message(QueueUrl=self._url, MessageBody=message_of(refusal))


class DeadLetters:
    """Messages that a function could not take, and the queue that they came from."""

    def __init__(self, client: Any, *, url: str, home: str) -> None:
        self._client = client
        self._url = url
        self._home = home

    def waiting(self) -> list[Letter]:
        """All letters, by their ids only; they stay where they are."""
        received = list(self._received())
        with translating("sqs:ChangeMessageVisibility on the dead letters"):
            for message in received:
                self._client.change_message_visibility(
                    QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"], VisibilityTimeout=0
                )
        return [letter(message["MessageId"], message["Body"]) for message in received]

    def send_home(self) -> int:
        """Put all letters back into their queue and return how many. One may arrive twice, which changes nothing."""
        sent = 0
        for message in self._received():
            with translating("sqs:SendMessage and sqs:DeleteMessage"):
                self._client.send_message(QueueUrl=self._home, MessageBody=message["Body"])
                self._client.delete_message(QueueUrl=self._url, ReceiptHandle=message["ReceiptHandle"])
            sent += 1
        return sent

    def _received(self) -> Iterator[dict[str, Any]]:
        seen: set[str] = set()
        while True:
            with translating("sqs:ReceiveMessage on the dead letters"):
                answer = self._client.receive_message(
                    QueueUrl=self._url, MaxNumberOfMessages=BATCH, VisibilityTimeout=HIDDEN_SECONDS, WaitTimeSeconds=1
                )
            new = [message for message in answer.get("Messages", []) if message["MessageId"] not in seen]
            if not new:
                return
            seen |= {message["MessageId"] for message in new}
            yield from new
