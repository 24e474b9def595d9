"""A server of the tiny model, and what the tests of it have in common; the standard library only."""

import contextlib
import http.client
import json
import pathlib
import os
import signal
import socket
import subprocess
import tempfile
import time

SOURCE = pathlib.Path(__file__).resolve().parents[3]
TINY = SOURCE / "tests/corpus/states/0.1/tiny"
# It does not say how its pictures are prepared, which would be a note of every answer.
PREPARED = ("--set", "mean=0.5,0.5,0.5", "--set", "std=0.5,0.5,0.5", "--set", "crop-pct=0.9", "--set", "interpolation=bicubic")
MODEL = "deit_tiny_patch16_224"  # the bundled one, which has layers and patches enough
PICTURES = SOURCE / "tests/corpus/pictures"
GOOD = [PICTURES / "good" / name for name in ("baseline.jpg", "progressive.jpg", "colour.bmp", "grey.jpg")]
ENVIRONMENT = dict(os.environ, OMP_WAIT_POLICY="passive", NO_COLOR="1")
SECONDS = 60  # that nothing takes


class Server:
    def __init__(self, program, *options, model=TINY, environment=None):
        self._errors = tempfile.TemporaryFile()  # pylint: disable=consider-using-with
        self.process = subprocess.Popen(  # pylint: disable=consider-using-with
            [program, "serve", *(("-m", model) if model else ()), *(PREPARED if model == TINY else ()), "--port", "0", "--device", "cpu", *options],
            stdout=subprocess.PIPE, stderr=self._errors, env=ENVIRONMENT | (environment or {}), text=True)
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            raise RuntimeError(f"no server: {self.errors()}")
        self.port = int(self.url.rstrip("/").rsplit(":", 1)[1])

    def errors(self):
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")

    def stop(self, number=signal.SIGTERM):
        """The exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(SECONDS)
        finally:
            self.process.kill()
            self.process.stdout.close()
            self._errors.close()

    def ask(self, method, target, body=None, **headers):
        """(status, headers, body)."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)) as connection:
            connection.request(method, target, body, {name.replace("_", "-"): value for name, value in headers.items()})
            response = connection.getresponse()
            return response.status, response.headers, response.read()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)

    def raw(self, data):
        """All that comes back to these bytes until the server closes."""
        with self.connect() as connection:
            connection.sendall(data)
            return everything(connection)

    def metrics(self):
        return samples(self.ask("GET", "/metrics")[2].decode())


def everything(connection):
    found = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(65536):
            found += chunk
    return found


def samples(text):
    """Values by name and labels, as written: {'a{b="c"}': 1.0}. Raises ValueError where it is no text of Prometheus' format."""
    values, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            types[name] = kind
        elif not line.startswith("# HELP "):
            key, _, value = line.rpartition(" ")
            name = key.partition("{")[0]
            family = name if name in types else name.rsplit("_", 1)[0]
            if family not in types or types[family] == "histogram" and family == name:
                raise ValueError(f"no type: {line}")
            if key in values:
                raise ValueError(f"twice: {key}")
            values[key] = float(value)
    return values


def error_of(body):
    return json.loads(body)["error"]


def without_seconds(record):
    return {key: value for key, value in record.items() if key != "seconds"}


def form(pictures, boundary="=a boundary="):
    """The type and the body of a form with files by name."""
    parts = [f'--{boundary}\r\nContent-Disposition: form-data; name="picture"; filename="{name}"\r\n'
             "Content-Type: application/octet-stream\r\n\r\n".encode() + content + b"\r\n" for name, content in pictures]
    return f'multipart/form-data; boundary="{boundary}"', b"".join(parts) + f"--{boundary}--\r\n".encode()


def records(program, *inputs, words=("-m", TINY, *PREPARED, "--device", "cpu")):
    """Of `classify`."""
    done = subprocess.run([program, "classify", *words, "--format", "jsonl", *inputs], capture_output=True, env=ENVIRONMENT, timeout=SECONDS,
                          check=False)
    return [json.loads(line) for line in done.stdout.splitlines()]


def wait_until(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("it never came")
        time.sleep(0.02)
