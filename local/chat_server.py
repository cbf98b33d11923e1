"""llama.cpp behind /v1/chat/completions on loopback. Runs in .local/venv-llm and imports nothing of the project."""

import os
import signal
import sys

import xllamacpp

CONTEXT_TOKENS = 16_384


def main(port: int, model: str) -> None:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = model
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = port
    parameters.n_ctx = CONTEXT_TOKENS
    parameters.n_parallel = 1
    # One core is left for the stack, and nothing spins while it waits: a thread that shares its core with a spinning
    # one made 0.6 tokens per second of 7.
    for threads in (parameters.cpuparams, parameters.cpuparams_batch):
        threads.n_threads = max(1, (os.cpu_count() or 2) - 1)
        threads.poll = 0
    parameters.use_jinja = True
    server = xllamacpp.Server(parameters)
    sys.stdout.write(f"listening on {server.listening_address}\n")
    sys.stdout.flush()
    signal.sigwait([signal.SIGTERM, signal.SIGINT])


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
    main(int(sys.argv[1]), sys.argv[2])
