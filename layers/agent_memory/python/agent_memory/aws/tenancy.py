"""Credentials that can reach one tenant only: an assumed role whose session carries the tenant as a tag."""

import hashlib
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any

from botocore.config import Config
from botocore.credentials import DeferredRefreshableCredentials
from botocore.session import Session

from agent_memory.aws.failures import translating
from agent_memory.contract import TENANT_TAG

MAX_CACHED_TENANTS = 64
# An hour is the most that a role assumed from a function's role may ask for.
SESSION_SECONDS = 3600
CONFIG = Config(
    connect_timeout=2,
    read_timeout=10,
    max_pool_connections=25,
    retries={"mode": "standard", "total_max_attempts": 4},
)


class TenantSessions:
    """Clients on the tenant's credentials, and clients on the function's own role. Safe to share between threads."""

    def __init__(self, *, role_arn: str) -> None:
        self._role_arn = role_arn
        self._own = Session()
        self._own_clients: dict[tuple[str, str], Any] = {}
        self._tenants: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._sessions: dict[str, Session] = {}
        # botocore sessions are not safe to make clients from in two threads at once.
        self._lock = Lock()

    def own_client(self, service: str, region: str = "") -> Any:
        """The client of *service* on the function's own role, in the function's own region unless one is named."""
        with self._lock:
            return self._own_client(service, region)

    def _own_client(self, service: str, region: str = "") -> Any:
        if (service, region) not in self._own_clients:
            with translating(f"opening {service}"):
                where = {"region_name": region} if region else {}
                self._own_clients[service, region] = self._own.create_client(service, config=CONFIG, **where)
        return self._own_clients[service, region]

    def client(self, tenant_id: str, service: str) -> Any:
        """The client of *service* on credentials that carry *tenant_id* as their session tag."""
        with self._lock:
            clients = self._tenants.setdefault(tenant_id, {})
            self._tenants.move_to_end(tenant_id)
            while len(self._tenants) > MAX_CACHED_TENANTS:
                forgotten, _ = self._tenants.popitem(last=False)
                self._sessions.pop(forgotten, None)
            if service not in clients:
                with translating(f"opening {service}"):
                    clients[service] = self._session(tenant_id).create_client(service, config=CONFIG)
            return clients[service]

    def _session(self, tenant_id: str) -> Session:
        if tenant_id not in self._sessions:
            session = Session()
            # One loader for all: reading the service models again for every tenant costs a tenth of a second each.
            session.register_component("data_loader", self._own.get_component("data_loader"))
            credentials = DeferredRefreshableCredentials(self._refresher(tenant_id), "sts-assume-role")
            session._credentials = credentials  # noqa: SLF001 - botocore has no public way to set a refreshable one
            self._sessions[tenant_id] = session
        return self._sessions[tenant_id]

    def _refresher(self, tenant_id: str) -> Callable[[], dict[str, str]]:
        sts = self._own_client("sts")
        # Ids may be addresses and session names end in CloudTrail, so the name is a digest.
        name = "tenant-" + hashlib.sha256(tenant_id.encode()).hexdigest()[:32]

        def refresh() -> dict[str, str]:
            with translating("sts:AssumeRole on the tenant role"):
                answer = sts.assume_role(
                    RoleArn=self._role_arn,
                    RoleSessionName=name,
                    DurationSeconds=SESSION_SECONDS,
                    Tags=[{"Key": TENANT_TAG, "Value": tenant_id}],
                )["Credentials"]
            return {
                "access_key": answer["AccessKeyId"],
                "secret_key": answer["SecretAccessKey"],
                "token": answer["SessionToken"],
                "expiry_time": answer["Expiration"].isoformat(),
            }

        return refresh
