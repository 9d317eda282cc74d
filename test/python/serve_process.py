"""For tests: weft-serve as a process, from a folder of models, at ports that are free."""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = pathlib.Path(os.environ.get("WEFT_BUILD_DIR", ROOT / "build"))
BINARY = BUILD / "weft-serve"
CLIENTS = ROOT / ".venv-serve" / "bin" / "python"


def has_clients():
    probe = [str(CLIENTS), "-c", "import tritonclient.http, tritonclient.grpc, grpc_reflection, flax, equinox, flatbuffers, importlib.util;"
             "assert importlib.util.find_spec('keras')"]  # whose import wants a backend
    return CLIENTS.exists() and subprocess.run(probe, capture_output=True, check=False).returncode == 0


class Process:
    def __init__(self, *flags, **variables):
        env = {**os.environ, "WEFT_CACHE": "0", **variables}
        self.process = subprocess.Popen(
            [str(BINARY), "--host=127.0.0.1", "--port=0", "--rest_api_port=0", "--file_system_poll_wait_seconds=0.1",
             *map(str, flags)], env=env, stderr=subprocess.PIPE, text=True)
        self.lines, self.grpc, self.http = [], None, None
        for line in self.process.stderr:
            self.lines.append(line)
            ports = re.search(r"ready: .*gRPC at port (\d+), HTTP at port (\d+)", line)
            if ports:
                self.grpc, self.http = map(int, ports.groups())
                break
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    @property
    def log(self):
        return "".join(self.lines)

    def ask(self, path, body=None, **headers):
        """(status, JSON or text) of a request; a body makes it a POST."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        headers = {name.replace("_", "-"): str(value) for name, value in headers.items()}
        request = urllib.request.Request(f"http://127.0.0.1:{self.http}{path}", data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                status, text = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, text = error.code, error.read()
        try:
            return status, json.loads(text)
        except ValueError:
            return status, text.decode()

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        status = self.process.wait(timeout=60)
        self.reader.join()
        return status


@contextlib.contextmanager
def serving(*flags, **variables):
    process = Process(*flags, **variables)
    try:
        assert process.http, process.log
        yield process
    finally:
        process.stop(signal.SIGKILL if sys.exc_info()[0] else signal.SIGTERM)
