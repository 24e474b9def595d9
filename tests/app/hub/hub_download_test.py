"""`models download` against a hub on this machine that misbehaves in every way that its test's name says.

    python tests/app/hub/hub_download_test.py PROGRAM [TEST...]

Standard library only; the program needs the command `curl`.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TINY = ROOT / "tests" / "corpus" / "states" / "0.1" / "tiny"
WEIGHTS = (TINY / "model.safetensors").read_bytes()
CONFIG = (TINY / "config.json").read_bytes()
PHOTO = ROOT / "assets" / "images" / "otter-head.jpg"
COMMIT = "0123456789abcdef" * 2 + "01234567"
DIGEST = hashlib.sha256(WEIGHTS).hexdigest()
PROGRAM = ""


def listing(**more: object) -> dict:
    large = {"rfilename": "model.safetensors", "blobId": "b" * 40, "lfs": {"sha256": DIGEST, "size": len(WEIGHTS)}}
    config = {"rfilename": "config.json", "blobId": "c" * 40, "size": len(CONFIG)}
    others = [{"rfilename": name, "blobId": "d" * 40, "size": 3} for name in ("README.md", "onnx/model.onnx", "training_args.bin")]
    return {"sha": COMMIT, "siblings": [large, config, *others], **more}


class Hub(BaseHTTPRequestHandler):
    """`server.answer_listing` and `server.answer_weights` are what a test lets it do; both get this handler."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def give(self, body: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def give_part(self, body: bytes, length: int) -> None:
        """Promises all of it and closes the connection behind `length` bytes."""
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[:length])
        self.close_connection = True

    def give_range(self, body: bytes) -> None:
        """As a hub does: what the Range asks for."""
        begin = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0]
        at = int(begin)
        if at == 0:
            self.give(body)
        elif at >= len(body):
            self.give(b"", 416)
        else:
            self.give(body[at:], 206, Content_Range=f"bytes {at}-{len(body) - 1}/{len(body)}")

    def do_GET(self) -> None:
        self.server.requests.append((self.path, self.headers.get("Range")))
        try:
            if self.path.startswith("/api/models/"):
                self.server.answer_listing(self)
            elif self.path.endswith("/config.json"):
                self.give_range(CONFIG)
            else:
                self.server.answer_weights(self)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True


class Download(unittest.TestCase):
    def setUp(self) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *_: None  # programs that are killed hang up
        self.server.requests = []
        self.server.answer_listing = lambda hub: hub.give(json.dumps(listing()).encode())
        self.server.answer_weights = lambda hub: hub.give_range(WEIGHTS)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.hub = f"http://127.0.0.1:{self.server.server_port}"
        self.home = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.cache = self.home / "hub"
        self.repository = self.cache / "models--test--tiny"
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
        self.environment |= {"HF_HOME": str(self.home), "HF_HUB_DOWNLOAD_TIMEOUT": "1", "no_proxy": "127.0.0.1"}

    def start(self, *words: object, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen([PROGRAM, *map(str, words)], env={**self.environment, **environment}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run_program(self, *words: object, **environment: str) -> tuple[int, str, str]:
        program = self.start(*words, **environment)
        out, err = program.communicate(timeout=120)
        return program.returncode, out, err

    def download(self, name: str = "test/tiny", **environment: str) -> tuple[int, str, str]:
        return self.run_program("models", "download", name, "--hub", self.hub, **environment)

    def asks_for_weights(self) -> list[str | None]:
        """The Range of each request."""
        return [asked for path, asked in self.server.requests if path.endswith("model.safetensors")]

    def assert_whole(self, done: tuple[int, str, str]) -> None:
        code, out, err = done
        self.assertEqual(code, 0, err)
        snapshot = self.repository / "snapshots" / COMMIT
        self.assertEqual(out, f"{snapshot}\n")
        self.assertEqual((snapshot / "model.safetensors").read_bytes(), WEIGHTS)
        self.assertEqual(os.readlink(snapshot / "model.safetensors"), f"../../blobs/{DIGEST}")
        self.assertFalse(list(self.home.rglob("*.incomplete")))

    def assert_refused(self, done: tuple[int, str, str], *texts: str) -> None:
        """One line, and nothing in the cache that `-m` could take for a model."""
        code, out, err = done
        self.assertEqual((code, out), (1, ""), err)
        errors = [line for line in err.splitlines() if line.startswith("error: ")]
        self.assertEqual(len(errors), 1, err)
        for text in texts:
            self.assertIn(text, errors[0])
        self.assertFalse((self.repository / "refs" / "main").exists())
        self.assertFalse((self.repository / "blobs" / DIGEST).exists())
        self.assertEqual({path.name for path in self.home.iterdir()} - {"hub"}, set(), "written outside the cache")

    # What hubs do on good days.

    def test_a_model_is_fetched_once_and_opens(self) -> None:
        self.assert_whole(self.download())
        snapshot = self.repository / "snapshots" / COMMIT
        self.assertEqual({file.name for file in snapshot.iterdir()}, {"model.safetensors", "config.json"})
        self.assertEqual((self.repository / "refs" / "main").read_text(), COMMIT)
        code, out, err = self.run_program("classify", PHOTO, "-m", "test/tiny", "--device", "cpu", "--format", "json")
        self.assertEqual(code, 0, err)
        self.assertEqual(self.run_program("models", "path", "hf-hub:test/tiny")[1], f"{snapshot}\n")
        self.server.requests.clear()
        self.assert_whole(self.download())
        self.assertEqual([path for path, _ in self.server.requests], ["/api/models/test/tiny/revision/main?blobs=true"])

    def test_revisions_and_names_of_timm(self) -> None:
        self.assertEqual(self.download("test/tiny@refs/pr/1")[0], 0)
        self.assertEqual((self.repository / "refs/refs/pr/1").read_text(), COMMIT)
        self.assertEqual(self.run_program("models", "path", "hf-hub:test/tiny@refs/pr/1")[0], 0)
        self.assertEqual(self.download("vit_of_timm.in1k")[0], 0)
        self.assertTrue((self.cache / "models--timm--vit_of_timm.in1k/refs/main").exists())
        paths = [path for path, _ in self.server.requests]
        self.assertIn("/api/models/test/tiny/revision/refs%2Fpr%2F1?blobs=true", paths)

    def test_a_redirect_is_followed(self) -> None:
        def answer(hub: Hub) -> None:
            if hub.path.startswith("/elsewhere"):
                hub.give_range(WEIGHTS)
            else:
                hub.give(b"", 302, Location=f"{self.hub}/elsewhere/model.safetensors?token=a%2Fb")

        self.server.answer_weights = answer
        self.assert_whole(self.download())

    def test_two_at_once_fetch_it_once(self) -> None:
        def slowly(hub: Hub) -> None:
            time.sleep(0.5)
            hub.give_range(WEIGHTS)

        self.server.answer_weights = slowly
        programs = [self.start("models", "download", "test/tiny", "--hub", self.hub) for _ in range(2)]
        for program in programs:
            out, err = program.communicate(timeout=120)
            self.assert_whole((program.returncode, out, err))
        self.assertEqual(len(self.asks_for_weights()), 1)

    # What goes wrong and is mended by asking again.

    def test_a_truncated_body_is_gone_on_with(self) -> None:
        answers = [lambda hub: hub.give_part(WEIGHTS, 4000), lambda hub: hub.give_range(WEIGHTS)]
        self.server.answer_weights = lambda hub: answers.pop(0)(hub)
        self.assert_whole(self.download())
        self.assertEqual(self.asks_for_weights(), [None, "bytes=4000-"])

    def test_a_hub_without_ranges_begins_anew(self) -> None:
        answers = [lambda hub: hub.give_part(WEIGHTS, 4000), lambda hub: hub.give(WEIGHTS), lambda hub: hub.give(WEIGHTS)]
        self.server.answer_weights = lambda hub: answers.pop(0)(hub)
        self.assert_whole(self.download())
        self.assertEqual(self.asks_for_weights(), [None, "bytes=4000-", None])

    def test_a_wrong_part_of_an_earlier_run_begins_anew(self) -> None:
        (self.repository / "blobs").mkdir(parents=True)
        (self.repository / "blobs" / f"{DIGEST}.incomplete").write_bytes(bytes(5000))
        self.assert_whole(self.download())
        self.assertEqual(self.asks_for_weights(), ["bytes=5000-", None])

    def test_a_whole_part_of_an_earlier_run_is_taken(self) -> None:
        (self.repository / "blobs").mkdir(parents=True)
        (self.repository / "blobs" / f"{DIGEST}.incomplete").write_bytes(WEIGHTS)
        self.assert_whole(self.download())
        self.assertEqual(self.asks_for_weights(), [])

    def test_a_silent_hub_is_asked_again(self) -> None:
        def stall(hub: Hub) -> None:
            hub.send_response(200)
            hub.send_header("Content-Length", str(len(WEIGHTS)))
            hub.end_headers()
            hub.wfile.write(WEIGHTS[:3000])
            hub.wfile.flush()
            time.sleep(30)
            hub.close_connection = True

        answers = [stall, lambda hub: hub.give_range(WEIGHTS)]
        self.server.answer_weights = lambda hub: answers.pop(0)(hub)
        begin = time.monotonic()
        self.assert_whole(self.download())
        self.assertLess(time.monotonic() - begin, 25)
        self.assertEqual(self.asks_for_weights()[1], "bytes=3000-")

    def test_a_killed_download_goes_on(self) -> None:
        reached, killed = threading.Event(), threading.Event()

        def stall(hub: Hub) -> None:
            hub.send_response(200)
            hub.send_header("Content-Length", str(len(WEIGHTS)))
            hub.end_headers()
            hub.wfile.write(WEIGHTS[:5000])
            hub.wfile.flush()
            reached.set()
            killed.wait(60)
            hub.close_connection = True

        self.server.answer_weights = stall
        program = self.start("models", "download", "test/tiny", "--hub", self.hub, HF_HUB_DOWNLOAD_TIMEOUT="60")
        self.assertTrue(reached.wait(60))
        part = self.repository / "blobs" / f"{DIGEST}.incomplete"
        deadline = time.monotonic() + 30
        while not (part.exists() and part.stat().st_size == 5000) and time.monotonic() < deadline:
            time.sleep(0.02)
        program.kill()
        killed.set()
        program.communicate(timeout=60)
        self.assertEqual(self.run_program("models", "path", "hf-hub:test/tiny")[0], 2, "half a model is none")
        self.server.answer_weights = lambda hub: hub.give_range(WEIGHTS)
        self.server.requests.clear()
        self.assert_whole(self.download())
        self.assertEqual(self.asks_for_weights(), ["bytes=5000-"])

    def test_an_error_of_the_server_passes(self) -> None:
        answers = [lambda hub: hub.give(b"busy", 503), lambda hub: hub.give_range(WEIGHTS)]
        self.server.answer_weights = lambda hub: answers.pop(0)(hub)
        self.assert_whole(self.download())

    # What is refused.

    def test_another_content_than_listed(self) -> None:
        self.server.answer_weights = lambda hub: hub.give_range(b"x" * len(WEIGHTS))
        self.assert_refused(self.download(), "SHA-256", "model.safetensors")

    def test_more_bytes_than_listed(self) -> None:
        self.server.answer_weights = lambda hub: hub.give_range(WEIGHTS + bytes(1_000_000))
        self.assert_refused(self.download(), "larger than the hub said")
        part = self.repository / "blobs" / f"{DIGEST}.incomplete"
        self.assertLessEqual(part.stat().st_size if part.exists() else 0, len(WEIGHTS))

    def test_a_body_that_always_ends_early(self) -> None:
        self.server.answer_weights = lambda hub: hub.give_part(WEIGHTS, 0)
        self.assert_refused(self.download(), "ends its answer early")
        self.assertEqual(len(self.asks_for_weights()), 5)

    def test_redirects_in_a_circle(self) -> None:
        self.server.answer_weights = lambda hub: hub.give(b"", 302, Location=self.hub + hub.path)
        self.assert_refused(self.download(), "from one address to the next")

    def test_a_redirect_to_a_file(self) -> None:
        self.server.answer_weights = lambda hub: hub.give(b"", 302, Location="file:///etc/passwd")
        self.assert_refused(self.download(), "not https")

    def test_names_that_lead_elsewhere(self) -> None:
        for name in ("../../../evil.safetensors", "/tmp/evil.safetensors", "a/../../model.safetensors", "a\\b", "a\nb", ""):
            evil = {"rfilename": name, "blobId": "e" * 40, "size": 4}
            self.server.answer_listing = lambda hub, evil=evil: hub.give(
                json.dumps(listing(siblings=[*listing()["siblings"], evil])).encode())
            self.assert_refused(self.download(), "leads out of its folder")
        self.assertEqual(self.asks_for_weights(), [])

    def test_digests_that_lead_elsewhere(self) -> None:
        for sha in ("../../../../evil", "main", COMMIT.upper(), COMMIT + "\n"):
            self.server.answer_listing = lambda hub, sha=sha: hub.give(json.dumps(listing(sha=sha)).encode())
            self.assert_refused(self.download(), "no listing")
        for digest in ("../../../evil", "", "g" * 64):
            large = {"rfilename": "model.safetensors", "blobId": "b" * 40, "lfs": {"sha256": digest, "size": 4}}
            self.server.answer_listing = lambda hub, large=large: hub.give(json.dumps(listing(siblings=[large])).encode())
            self.assert_refused(self.download(), "no size or digest")

    def test_what_is_no_listing(self) -> None:
        for body in (b"", b"<html>", b"[]", b"null", b'{"sha": 1}', b'{"sha": "' + COMMIT.encode() + b'", "siblings": [1]}', b"\xff" * 99):
            self.server.answer_listing = lambda hub, body=body: hub.give(body)
            self.assert_refused(self.download(), "no listing")

    def test_a_listing_without_end(self) -> None:
        def answer(hub: Hub) -> None:
            hub.send_response(200)
            hub.end_headers()
            hub.close_connection = True
            for _ in range(64):
                hub.wfile.write(b" " * (1 << 20))

        self.server.answer_listing = answer
        self.assert_refused(self.download(), "larger than the hub said")

    def test_no_weights(self) -> None:
        self.server.answer_listing = lambda hub: hub.give(json.dumps(listing(siblings=[])).encode())
        self.assert_refused(self.download(), "no weights")

    def test_statuses(self) -> None:
        for status, asked in ((404, 1), (401, 1), (403, 1), (500, 5)):
            self.server.requests.clear()
            self.server.answer_listing = lambda hub, status=status: hub.give(b"no", status)
            done = self.download()
            self.assert_refused(done, f"status {status}")
            self.assertEqual(len(self.server.requests), asked)
            self.assertEqual("login" in done[2], status in (401, 403))

    def test_no_hub_there(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.assert_refused(self.download(), "cannot be reached")

    def test_addresses_that_are_not_https(self) -> None:
        for hub in ("http://example.org", "http://127.0.0.1.example.org", "http://127.0.0.1@example.org", "file:///etc", "ftp://localhost", "localhost"):
            code, _, err = self.run_program("models", "download", "test/tiny", "--hub", hub)
            self.assertEqual(code, 2, err)
            self.assertIn("https://", err)

    def test_nothing_is_fetched_unless_asked_for(self) -> None:
        there = {"HF_ENDPOINT": self.hub}
        for words in (["classify", PHOTO, "-m", "test/tiny"], ["inspect", "hf-hub:test/tiny"], ["models", "path", "hf-hub:test/tiny"]):
            code, _, err = self.run_program(*words, **there)
            self.assertNotEqual(code, 0)
            self.assertIn("hydrascope models download test/tiny", err)
        self.assertEqual(self.run_program("models", "download", "test/tiny", HF_HUB_OFFLINE="1", **there)[0], 2)
        self.assertEqual(self.server.requests, [])
        self.assertEqual(self.run_program("models", "download", "test/tiny", **there)[0], 0)

    def test_curl_is_missing(self) -> None:
        empty = self.home / "hub" / "empty"
        empty.mkdir(parents=True)
        self.assert_refused(self.download(PATH=str(empty)), "`curl` is missing")


if __name__ == "__main__":
    PROGRAM = str(Path(sys.argv.pop(1)).resolve())
    if shutil.which("curl") is None:
        print("SKIPPED: no curl")
        sys.exit(77)
    unittest.main()
