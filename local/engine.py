"""The emulator of one state folder: started with a clean environment, stopped so that nothing is lost."""

import os
import signal
from collections.abc import Mapping

from local.layout import ACCOUNT, EMULATOR_VENV, HOST, REGION, ROOT, Layout, LocalRuntimeError, python_of
from local.processes import Server, children

READY_SECONDS = 60.0
# Each function keeps a worker per concurrent call, and starting one costs a core a second (docs/adr/0012).
CONCURRENT_FUNCTIONS = min(10, 2 * (os.cpu_count() or 2))


def client_environment(*, emulator_url: str, ai_url: str) -> dict[str, str]:
    """What a client of the stack needs, and what its functions get."""
    return {
        "AWS_ENDPOINT_URL": emulator_url,
        "AWS_ENDPOINT_URL_BEDROCK_RUNTIME": ai_url,
        "AWS_ENDPOINT_URL_BEDROCK_AGENT": ai_url,
        "AWS_ENDPOINT_URL_BEDROCK_AGENT_RUNTIME": ai_url,
        "AWS_ENDPOINT_URL_COMPREHEND": ai_url,
        "AWS_ACCESS_KEY_ID": "local",
        "AWS_SECRET_ACCESS_KEY": "local",
        "AWS_DEFAULT_REGION": REGION,
    }


class Engine:
    """The AWS emulator as a child process."""

    def __init__(self, layout: Layout, *, port: int) -> None:
        self._layout = layout
        self.server = Server(
            "AWS emulator",
            pid_file=layout.pid_file("emulator"),
            port=port,
            log=layout.emulator_log,
            health="/_ministack/health",
        )

    def start(self, clients: Mapping[str, str]) -> None:
        """Start it, or refuse because this state folder already has one."""
        if pid := self.server.pid:
            raise LocalRuntimeError(
                f"an emulator (pid {pid}) already runs on {self._layout.state}, two would overwrite each other. "
                f"Use that one, or end it first: python -m local down --state {self._layout.state}"
            )
        python = python_of(EMULATOR_VENV)
        if not python.exists():
            raise LocalRuntimeError("the emulator is not installed. Run `python -m local install` once.")
        # -P keeps the folder of the script off the path: its modules are not for the functions.
        script = [str(python), "-P", str(ROOT / "local" / "emulator.py")]
        command = [*script, str(self._layout.function_log), str(self._layout.layer_cache)]
        self.server.start(command, environment=self._environment(clients), folder=self._layout.temporary)

    def _environment(self, clients: Mapping[str, str]) -> dict[str, str]:
        """Nothing of the caller's: functions inherit all of it."""
        layout = self._layout
        return {
            "PATH": os.defpath,
            "LANG": "C.UTF-8",
            "HOME": str(layout.temporary),
            "TMPDIR": str(layout.temporary),
            "PYTHONNOUSERSITE": "1",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "AWS_EC2_METADATA_DISABLED": "true",
            **clients,
            "BIND_HOST": HOST,
            "MINISTACK_HOST": HOST,
            "GATEWAY_PORT": str(self.server.port),
            "MINISTACK_ACCOUNT_ID": ACCOUNT,
            "MINISTACK_REGION": REGION,
            "AUTH": "false",
            "PERSIST_STATE": "1",
            "STATE_DIR": str(layout.emulator_state),
            "S3_PERSIST": "1",
            "S3_DATA_DIR": str(layout.objects),
            "LAMBDA_ACCOUNT_CONCURRENCY": str(CONCURRENT_FUNCTIONS),
            # Listeners that nobody here asked for, and a Docker that may belong to other work.
            "SFTP_ENABLED": "0",
            "IOT_MTLS_ENABLED": "0",
            "DOCKER_HOST": f"unix://{layout.temporary / 'no-docker.sock'}",
            "LOG_LEVEL": "WARNING",
            # The emulator's level is not the functions': what they decided is what `local logs` is for.
            "POWERTOOLS_LOG_LEVEL": "INFO",
        }

    def kill_workers(self) -> int:
        """Kill the processes that run functions, as a crash would; return how many."""
        killed = 0
        for worker in children(self.server.pid or 0) if self.server.pid else []:
            try:
                os.kill(worker, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed += 1
        return killed
