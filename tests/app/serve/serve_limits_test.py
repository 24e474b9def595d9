"""`hydrascope serve` under clients of bad will and many clients: limits, deadlines, signals.

    serve_limits_test.py PROGRAM
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

from serving import ENVIRONMENT, GOOD, MODEL, SECONDS, TINY, Server, error_of, everything, records, wait_until, without_seconds

PROGRAM = None
LONG = "/v1/explain?topk=20"  # takes seconds


class Limits(unittest.TestCase):
    def server(self, *options, **words):
        server = Server(PROGRAM, *options, **words)
        self.addCleanup(server.stop)
        return server

    def long_request(self, server):
        """A list that will hold its status, and the thread that asks."""
        found = []
        thread = threading.Thread(target=lambda: found.append(server.ask("POST", LONG, GOOD[0].read_bytes())[0]))
        thread.start()
        self.addCleanup(thread.join)
        wait_until(lambda: server.metrics()["hydrascope_queue_requests"] == 1)
        return found, thread

    def half_a_request(self, server, picture, path=b"/v1/classify"):
        connection = server.connect()
        self.addCleanup(connection.close)
        connection.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % (path, len(picture)) + picture[:10])
        return connection

    def test_a_decoder_that_crashes_or_hangs_costs_one_answer(self):
        module = os.environ.get("HYDRASCOPE_HOSTILE_FILES")
        if not module:
            self.skipTest("HYDRASCOPE_HOSTILE_FILES names no module")
        server = self.server("--set", "decode-timeout=0.5", environment={"LD_PRELOAD": module})
        for kind, words in ((b"crash", "the decoder crashed: Segmentation fault"), (b"hungry", "the decoder crashed: Aborted"),
                            (b"hang", "decoding took longer than 0.5 seconds")):
            pictures, answers = [picture.read_bytes() for picture in GOOD], []
            threads = [threading.Thread(target=lambda body=body: answers.append(server.ask("POST", "/v1/classify", body)[0])) for body in pictures]
            for thread in threads:
                thread.start()
            for path in ("/v1/classify", "/v1/explain?format=png", "/v1/embed"):
                status, _, body = server.ask("POST", path, kind + b" and more bytes")
                self.assertEqual((status, error_of(body)["code"], error_of(body)["message"]), (400, "decode_failed", words), path)
            for thread in threads:
                thread.join()
            self.assertEqual(answers, [200] * len(pictures))
        self.assertEqual(server.ask("POST", "/v1/explain?format=png&topk=1&layer=0", GOOD[0].read_bytes())[0], 200)
        self.assertEqual(server.metrics()["hydrascope_queue_requests"], 0)
        self.assertEqual(server.stop(), 0)

    def test_decoders_end_with_the_server(self):
        def decoders(pids):
            commands = {pid: pathlib.Path(f"/proc/{pid}/cmdline") for pid in pids}
            return {pid for pid, file in commands.items() if file.exists() and b"decode-pictures" in file.read_bytes()}

        for number in (signal.SIGTERM, signal.SIGKILL):
            before = decoders(int(name) for name in os.listdir("/proc") if name.isdigit())
            server = self.server()
            self.assertEqual(server.ask("POST", "/v1/classify", GOOD[0].read_bytes())[0], 200)
            started = decoders(int(name) for name in os.listdir("/proc") if name.isdigit()) - before
            self.assertTrue(started)
            server.stop(number)
            wait_until(lambda started=started: not decoders(started))

    def test_bodies_that_are_too_large(self):
        server = self.server("--set", "max-bytes=5000")
        head = b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\n"
        self.assertIn(b" 413 ", server.raw(head + b"Content-Length: 5001\r\n\r\n" + b"a" * 5001))
        self.assertIn(b" 413 ", server.raw(head + b"Content-Length: 99999999999999\r\n\r\n"))
        self.assertIn(b" 413 ", server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + b"1000\r\n" + b"a" * 4096 + b"\r\n1000\r\n" + b"a" * 4096))
        status, _, body = server.ask("POST", "/v1/classify", b"a" * 3_000_000)  # much more than the sockets hold
        self.assertEqual((status, error_of(body)["code"]), (413, "too_large"))

    def test_a_full_queue_refuses(self):
        server = self.server("--set", "max-waiting=1", model=MODEL)
        picture = GOOD[0].read_bytes()
        first, thread = self.long_request(server)
        status, fields, body = server.ask("POST", "/v1/classify", picture)
        self.assertEqual((status, fields["Retry-After"], error_of(body)["code"]), (503, "1", "busy"))
        self.assertEqual(server.ask("GET", "/healthz")[0], 200)
        thread.join()
        self.assertEqual(first, [200])
        self.assertEqual(server.ask("POST", "/v1/classify", picture)[0], 200)

    def test_bodies_that_stall_take_no_place(self):
        server = self.server("--set", "max-waiting=2")
        picture = GOOD[0].read_bytes()
        slow = [self.half_a_request(server, picture) for _ in range(5)]
        wait_until(lambda: server.metrics()["hydrascope_queue_bytes"] == 50)
        self.assertEqual(server.metrics()["hydrascope_queue_requests"], 0)
        self.assertEqual(server.ask("POST", "/v1/classify", picture)[0], 200)
        for connection in slow:
            connection.sendall(picture[10:])
            self.assertIn(b" 200 OK", everything(connection))
        self.assertEqual(server.metrics()["hydrascope_queue_bytes"], 0)

    def test_what_takes_too_long(self):
        server = self.server("--timeout", "0.5", model=MODEL)
        picture = GOOD[0].read_bytes()
        self.assertEqual(server.ask("POST", "/v1/classify", picture)[0], 200)
        first, thread = self.long_request(server)
        begin = time.monotonic()
        thread.join()
        self.assertEqual(first, [504])
        self.assertLess(time.monotonic() - begin, 5)
        self.assertEqual(server.ask("POST", "/v1/classify", picture)[0], 200)
        self.long_request(server)
        begin = time.monotonic()
        self.assertEqual(server.stop(), 0)
        self.assertLess(time.monotonic() - begin, 5)

    def test_work_ends_when_its_client_goes(self):
        server = self.server(model=MODEL)
        picture = GOOD[0].read_bytes()
        with server.connect() as connection:
            connection.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (LONG.encode(), len(picture)) + picture)
            wait_until(lambda: server.metrics()["hydrascope_queue_requests"] == 1)
        wait_until(lambda: server.metrics()["hydrascope_queue_requests"] == 0)
        self.assertEqual(server.metrics()["hydrascope_pictures_failed_total"], 1)
        self.assertEqual(server.metrics()['hydrascope_requests_total{route="/v1/explain",status="503"}'], 1)
        self.assertEqual(server.ask("POST", "/v1/classify", picture)[0], 200)

    def test_maps_are_limited(self):
        server = self.server("--head", "all,mean,max", model=MODEL)
        picture = GOOD[0].read_bytes()
        status, _, body = server.ask("POST", "/v1/explain?topk=20", picture)  # 12 layers, 3 heads and 2 of all
        self.assertEqual(status, 400)
        self.assertIn("at most 1024 maps of a picture, found 1200", error_of(body)["message"])
        self.assertEqual(server.ask("POST", "/v1/explain?topk=20&layer=last", picture)[0], 200)

    def test_an_address_of_this_machine_alone(self):
        server = self.server("--host", "127.0.0.2")
        self.assertEqual(server.url, f"http://127.0.0.2:{server.port}/")
        with urllib.request.urlopen(server.url + "healthz", timeout=SECONDS) as response:
            self.assertEqual(response.status, 200)

    def test_pages_by_names_that_others_reach(self):
        """Browsers leave Sec-Fetch-Site out where plain HTTP goes to another machine."""
        server = self.server("--host", "0.0.0.0")
        for origin, status in (("http://pictures.example:8080", 200), ("http://example.org", 403), ("null", 403)):
            found = server.ask("POST", "/v1/classify", GOOD[0].read_bytes(), Host="pictures.example:8080", Origin=origin)[0]
            self.assertEqual(found, status, origin)

    def test_clients_that_are_slow(self):
        server = self.server("--timeout", "1")
        picture = GOOD[0].read_bytes()
        begin = time.monotonic()
        slow = [self.half_a_request(server, picture)]
        slow.append(server.connect())
        self.addCleanup(slow[1].close)
        slow[1].sendall(b"POST /v1/classify HTTP/1.1\r\nHo")
        idle = server.connect()
        self.addCleanup(idle.close)
        for _ in range(20):  # a byte now and then makes them no faster
            time.sleep(0.1)
            for connection in slow:
                with contextlib.suppress(OSError):
                    connection.sendall(b"a")
        for connection in slow:
            self.assertIn(b" 408 ", everything(connection))
        self.assertEqual(everything(idle), b"")
        self.assertLess(time.monotonic() - begin, 20)
        self.assertEqual(server.ask("POST", "/v1/classify", picture)[0], 200)
        self.assertEqual(server.metrics()["hydrascope_queue_requests"], 0)

    def test_clients_that_go_away(self):
        server = self.server()
        picture = GOOD[0].read_bytes()
        for _ in range(5):
            connection = self.half_a_request(server, picture)
            connection.close()
            connection = self.half_a_request(server, picture)
            connection.sendall(picture[10:])
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()  # by a reset
        wait_until(lambda: server.metrics()["hydrascope_queue_requests"] == 0)
        self.assertEqual(server.ask("POST", "/v1/classify", picture)[0], 200)
        self.assertEqual(server.stop(), 0)

    def test_signals_drain(self):
        picture = GOOD[0].read_bytes()
        for number in (signal.SIGTERM, signal.SIGINT):
            server = self.server()
            idle = server.connect()
            self.addCleanup(idle.close)
            half = self.half_a_request(server, picture)
            wait_until(lambda server=server: server.metrics()["hydrascope_queue_bytes"] == 10)
            server.process.send_signal(number)
            self.assertEqual(everything(idle), b"")
            with self.assertRaises(OSError):
                for _ in range(100):
                    server.connect().close()
                    time.sleep(0.05)
            self.assertIsNone(server.process.poll())
            half.sendall(picture[10:])
            self.assertIn(b" 200 OK", everything(half))
            self.assertEqual(server.process.wait(SECONDS), 0)

    def test_a_port_that_is_taken(self):
        server = self.server()
        done = subprocess.run([PROGRAM, "serve", "-m", TINY, "--port", str(server.port)], capture_output=True, text=True, env=ENVIRONMENT,
                              timeout=SECONDS, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"error: cannot listen: .*in use.*\(127\.0\.0\.1:\d+\)")


class Load(unittest.TestCase):
    """Twenty clients for some seconds, with good, broken and oversized pictures."""

    def test_twenty_clients(self):
        server = Server(PROGRAM, "--set", "max-bytes=1000000", "--set", "max-waiting=6")
        self.addCleanup(server.stop)
        expected = [without_seconds(record) for record in records(PROGRAM, *GOOD)]
        asked = [(f"/v1/classify?name={file}", file.read_bytes(), 200) for file in GOOD]
        asked += [("/v1/classify", b"no picture", 415), ("/v1/classify", b"a" * 1_000_001, 413), ("/v1/nothing", b"", 404)]
        end = time.monotonic() + 4
        counts, wrong = {}, []

        def run(client):
            number = client
            while time.monotonic() < end:
                target, body, wanted = asked[number % len(asked)]
                try:
                    status, _, content = server.ask("POST", target, body)
                except OSError as error:
                    wrong.append(repr(error))
                    return
                counts[status] = counts.get(status, 0) + 1
                if status not in (wanted, 503):
                    wrong.append((target, status, content[:200]))
                if status == 200 and without_seconds(json.loads(content)) != expected[number % len(asked)]:
                    wrong.append((target, content))
                number += 1

        threads = [threading.Thread(target=run, args=(client,)) for client in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertGreater(counts[200], 20)
        self.assertEqual(server.metrics()["hydrascope_queue_requests"], 0)
        self.assertEqual(server.stop(), 0)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(argv=sys.argv, verbosity=1 if re.search("-q", " ".join(sys.argv)) else 2)
