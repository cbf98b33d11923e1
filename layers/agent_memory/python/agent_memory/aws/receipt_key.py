"""The key that signs receipts: an HMAC key of KMS, which nobody can read and nobody else may use."""

import base64
from typing import Any

from botocore.exceptions import ClientError

from agent_memory.aws.failures import error_code, translating
from agent_memory.domain.erasure_receipts import Signature

ALGORITHM = "HMAC_SHA_256"
_INVALID = frozenset({"KMSInvalidMacException"})


class KmsReceiptKey:
    """*key*: alias, id or ARN of an HMAC key."""

    def __init__(self, client: Any, *, key: str) -> None:
        self._client = client
        self._key = key

    def sign(self, message: bytes) -> Signature:
        """The MAC of at most 4,096 bytes."""
        with translating("kms:GenerateMac"):
            mac = self._client.generate_mac(KeyId=self._key, Message=message, MacAlgorithm=ALGORITHM)["Mac"]
        return Signature(key=self._key, algorithm=ALGORITHM, mac=base64.b64encode(mac).decode("ascii"))

    def verify(self, message: bytes, signature: Signature) -> bool:
        """Whether this very key made it; which key a signature names is its own claim and is not followed."""
        if (signature.key, signature.algorithm) != (self._key, ALGORITHM):
            return False
        mac = base64.b64decode(signature.mac)
        with translating("kms:VerifyMac"):
            try:
                answer = self._client.verify_mac(
                    KeyId=self._key, Message=message, MacAlgorithm=ALGORITHM, Mac=mac or b"\x00"
                )
            except ClientError as error:
                if error_code(error) in _INVALID:
                    return False
                raise
        return bool(answer["MacValid"])
