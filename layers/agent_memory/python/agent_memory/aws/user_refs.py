"""Pseudonyms of users, under a key that only Secrets Manager holds."""

from functools import cached_property
from typing import Any

from agent_memory.aws.failures import translating
from agent_memory.domain import keys
from agent_memory.domain.errors import ConfigurationError

MINIMUM_KEY_BYTES = 16


class SecretUserRefs:
    """Replaces a user_id by its pseudonym; the key is read once per process."""

    def __init__(self, client: Any, *, secret: str) -> None:
        self._client = client
        self._secret = secret

    @cached_property
    def _key(self) -> bytes:
        with translating("secretsmanager:GetSecretValue on the user key"):
            answer = self._client.get_secret_value(SecretId=self._secret)
        key: bytes = answer.get("SecretBinary") or answer.get("SecretString", "").encode()
        if len(key) < MINIMUM_KEY_BYTES:
            raise ConfigurationError(f"secret {self._secret} must hold at least {MINIMUM_KEY_BYTES} bytes")
        return key

    def user_ref(self, tenant_id: str, user_id: str) -> str:
        """The pseudonym of *user_id* in *tenant_id*; the same person has another one in another tenant."""
        return keys.user_ref(self._key, tenant_id, user_id)
