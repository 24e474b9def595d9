"""`hydrascope serve` over its socket: answers against the commands' records, refusals, counts.

    serve_test.py PROGRAM
"""

import base64
import contextlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.parse

from serving import (ENVIRONMENT, GOOD, MODEL, PICTURES, PREPARED, SECONDS, SOURCE, TINY, Server, error_of, everything, form, records, samples,
                     without_seconds)

PROGRAM = None
LARGE = SOURCE / "assets/images/otter-head.jpg"


class OfOneServer(unittest.TestCase):
    options = ()
    model = TINY

    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM, *cls.options, model=cls.model)
        cls.addClassCleanup(cls.server.stop)

    def post(self, target, body, status=200, **headers):
        found, fields, content = self.server.ask("POST", target, body, **headers)
        self.assertEqual(found, status, content[:300])
        return fields, content


class Classify(OfOneServer):
    def test_a_picture_has_the_record_of_the_command(self):
        expected = records(PROGRAM, "--topk", "3", *GOOD)
        self.assertEqual(len(expected), len(GOOD))
        for file, record in zip(GOOD, expected):
            fields, body = self.post(f"/v1/classify?topk=3&name={file}", file.read_bytes())
            self.assertEqual(fields["Content-Type"], "application/json")
            self.assertEqual(without_seconds(json.loads(body)), without_seconds(record))
            self.assertEqual(body.decode().count("\n"), 1)

    def test_a_form_has_a_record_for_each_picture(self):
        names = [*GOOD, PICTURES / "good" / "no such picture.jpg"]
        contents = [file.read_bytes() if file.exists() else b"no picture" for file in names]
        kind, body = form(list(zip(names, contents)))
        fields, body = self.post("/v1/classify", body, Content_Type=kind)
        self.assertEqual(fields["Content-Type"], "application/x-ndjson")
        found = [json.loads(line) for line in body.splitlines()]
        self.assertEqual([without_seconds(record) for record in found[:-1]], [without_seconds(record) for record in records(PROGRAM, *GOOD)])
        self.assertEqual(found[-1]["error"]["code"], "unsupported_format")

    def test_text_is_what_people_read(self):
        _, body = self.post("/v1/classify?format=text&label_type=index&name=a", GOOD[0].read_bytes())
        self.assertRegex(body.decode(), r"^a  \d+x\d+ -> ")
        self.assertEqual(body.decode().count("\n"), 1 + min(5, body.decode().count("%")))

    def test_names_are_only_names(self):
        _, body = self.post("/v1/classify?name=/etc/passwd", GOOD[0].read_bytes())
        self.assertEqual(json.loads(body)["input"], "/etc/passwd")
        self.assertIn("top", json.loads(body))

    def test_broken_pictures(self):
        cut = GOOD[0].read_bytes()
        bomb = bytearray((PICTURES / "good/colour.bmp").read_bytes())
        bomb[18:26] = (2000000000).to_bytes(4, "little") * 2
        for content, status, code in ((b"", 400, "empty"), (b"no picture", 415, "unsupported_format"),
                                      (cut[: len(cut) // 2], 400, "decode_failed"), (bytes(bomb), 413, "too_large")):
            with self.subTest(code):
                _, body = self.post("/v1/classify?name=x", content, status)
                self.assertEqual(error_of(body)["code"], code)
                self.assertEqual(json.loads(body)["input"], "x")
        self.post("/v1/classify", GOOD[0].read_bytes())

    def test_bodies_that_are_no_pictures_are_named(self):
        picture = GOOD[0].read_bytes()
        text = base64.b64encode(picture)
        stripped = b"\xff\xd8" + bytes(byte for byte in picture[2:] * 3 if byte not in b"\r\n\0")
        urlencoded = "application/x-www-form-urlencoded"
        for body, kind, words in (
                (json.dumps({"image": text.decode()}).encode(), "application/json", "JSON (application/json)"),
                (json.dumps({"image": text.decode()}).encode(), "Application/JSON; charset=latin-9", "JSON (application/json)"),
                (b"  {\"image\": 1}", "", "JSON"), (text, "text/plain", "base64"), (text, "", "base64"),
                (b"data:image/jpeg;base64," + text, "", "a data: URL"), (b"<!DOCTYPE html><html>", "text/html", "HTML"),
                (b"a,b", "text/csv", "text/csv"), (b"\0\0\0\x20ftypisom", "video/mp4", "video"), (b"\x1aE\xdf\xa3", urlencoded, "a video (Matroska)"),
                (stripped, urlencoded, "--data-binary"), (b"image=" + text, urlencoded, "--data-binary"),
                (b"x", "multipart/mixed; boundary=x", "multipart/mixed"), (b"\x1f\x8b\x08", "", "gzip")):
            with self.subTest(words, kind=kind):
                _, answer = self.post("/v1/classify", body, 415, Content_Type=kind)
                self.assertEqual(error_of(answer)["code"], "unsupported_format")
                self.assertIn(words, error_of(answer)["message"])
                self.assertNotIn("\n", error_of(answer)["message"])
        self.assertIn("the body is empty", error_of(self.post("/v1/classify", b"", 400)[1])["message"])
        # A picture is one whatever it is called, and a broken one stays broken.
        for kind in ("application/json", urlencoded, "text/html", "image/png"):
            self.post("/v1/classify", picture, Content_Type=kind)
        self.assertEqual(error_of(self.post("/v1/classify", picture[: len(picture) // 2], 400, Content_Type=urlencoded)[1])["code"], "decode_failed")
        for coding, status in (("gzip", 415), ("br", 415), ("identity", 200)):
            _, answer = self.post("/v1/classify", picture, status, Content_Encoding=coding)
            if status == 415:
                self.assertIn("Content-Encoding: " + coding, error_of(answer)["message"])

    def test_parts_of_forms_by_any_spelling(self):
        picture = GOOD[0].read_bytes()
        for head in ("form-data; name=image; filename*=utf-8''a%20b.jpg", "form-data; filename*=UTF-8'en'a%20b.jpg; name=image",
                     "form-data; filename=\"a b.jpg\"; NAME=image", "form-data; name=\"a b.jpg\""):
            body = b"--x\r\nContent-Disposition: " + head.encode() + b"\r\n\r\n" + picture + b"\r\n--x--\r\n"
            with self.subTest(head):
                _, answer = self.post("/v1/classify", body, Content_Type="multipart/form-data; boundary=x")
                self.assertEqual(json.loads(answer)["input"], "a b.jpg")
                self.assertIn("top", json.loads(answer))
        body = b"--x\r\nContent-Disposition: form-data; name=image\r\n\r\n" + base64.b64encode(picture) + b"\r\n--x--\r\n"
        _, answer = self.post("/v1/classify", body, 400, Content_Type="multipart/form-data; boundary=x")
        self.assertIn("a picture's part has a file name", error_of(answer)["message"])
        body = b"--x\r\nContent-Disposition: form-data; name=a; filename=b\r\nContent-Type: application/json\r\n\r\n{}\r\n--x--\r\n"
        _, answer = self.post("/v1/classify", body, Content_Type="multipart/form-data; boundary=x")
        self.assertIn("JSON", error_of(answer)["message"])

    def test_names_of_parameters_that_are_none(self):
        picture = GOOD[0].read_bytes()
        head = b"--x\r\nContent-Disposition: form-data; filename=a\r\n\r\n" + picture + b"\r\n--x\r\nContent-Disposition: form-data"
        hint = ", and a picture's part has a file name: curl -F picture=@photo.jpg"
        for target, body, kind, wanted in (
                ("?=1", picture, "", {"message": "a parameter of /v1/classify has no name"}),
                ("", head + b"\r\n\r\n1\r\n--x--\r\n", "multipart/form-data; boundary=x", {"message": "a parameter of /v1/classify has no name" + hint}),
                ("", head + b"; name=\"Top K\"\r\n\r\n1\r\n--x--\r\n", "multipart/form-data; boundary=x",
                 {"subject": "Top K", "message": f"is no parameter of /v1/classify{hint} (Top K)"}),
                ("?top-k=1", picture, "", {"subject": "top-k", "message": "is no parameter of /v1/classify (top-k)"}),
                ("?top_k=1", picture, "", {"field": "top_k", "message": "is no parameter of /v1/classify (top_k)"})):
            with self.subTest(wanted=wanted):
                _, answer = self.post("/v1/classify" + target, body, 400, Content_Type=kind)
                self.assertEqual(error_of(answer), {"code": "invalid_argument", **wanted})

    def test_what_is_asked_wrongly(self):
        picture = GOOD[0].read_bytes()
        for target, kind in (("/v1/classify?topk=0", ""), ("/v1/classify?topk=x", ""), ("/v1/classify?depth=3", ""),
                             ("/v1/classify?format=png", ""), ("/v1/explain?method=hidra", ""), ("/v1/explain?class=no+class", ""),
                             ("/v1/explain?patch=1", ""), ("/v1/explain?patch=99,0&layer=0", ""),
                             ("/v1/explain?patch=0,0&layer=0&class=1", ""), ("/v1/explain?patch=0,0&layer=0&method=hydra", ""),
                             ("/v1/explain?patch=0,0&layer=0&head=1", ""), ("/v1/explain?patch=0,0&layer=0&topk=1", ""),
                             ("/v1/embed?format=npy", ""), ("/v1/explain?topk=21", ""), ("/v1/explain?topk=9223372036854775807&class=0", ""),
                             ("/v1/explain?topk=19" + "&class=0" * 2, ""),
                             ("/v1/classify", "multipart/form-data"), ("/v1/classify", "multipart/form-data; boundary=x")):
            with self.subTest(target + kind):
                _, body = self.post(target, picture, 400, Content_Type=kind)
                self.assertEqual(error_of(body)["code"], "invalid_argument")
                self.assertNotIn("\n", error_of(body)["message"])
        self.assertIn("at most 20 classes", error_of(self.post("/v1/explain?topk=1000", picture, 400)[1])["message"])
        for target in ("/v1/explain?layer=99", "/v1/explain?method=hydra&layer=x", "/v1/explain?head=99"):
            self.assertNotIn("--", error_of(self.post(target, picture, 400)[1])["message"])

    def test_fields_of_a_form_are_parameters(self):
        kind, body = form([("a.jpg", GOOD[0].read_bytes())])
        boundary = re.search('boundary="(.*)"', kind)[1].encode()
        field = b'--%s\r\nContent-Disposition: form-data; name="topk"\r\n\r\n%s\r\n'
        _, found = self.post("/v1/classify", field % (boundary, b"2") + body, Content_Type=kind)
        records_of = [json.loads(line) for line in found.splitlines()]
        self.assertEqual([(record["input"], len(record["top"])) for record in records_of], [("a.jpg", 2)])
        _, found = self.post("/v1/classify", field % (boundary, b"0") + body, 400, Content_Type=kind)
        self.assertIn("topk", error_of(found)["message"])
        self.assertEqual(error_of(found)["field"], "topk")
        _, found = self.post("/v1/classify", field.replace(b"topk", b"picture") % (boundary, b"abc") + body, 400, Content_Type=kind)
        self.assertIn("picture", error_of(found)["message"])

    def test_the_format_that_is_accepted_first(self):
        picture = GOOD[0].read_bytes()
        for accept, kind in (("application/json, image/png", "application/json"),
                             ("application/x-npy, image/png", "application/x-npy"), ("*/*", "application/json"),
                             ("text/html", "application/json"), ("image/*, */*;q=0.5", "image/png")):
            with self.subTest(accept):
                fields, _ = self.post("/v1/explain?layer=last", picture, Accept=accept)
                self.assertEqual(fields["Content-Type"], kind)
        fields, _ = self.post("/v1/classify", picture, Accept="image/png, text/plain")
        self.assertEqual(fields["Content-Type"], "text/plain; charset=utf-8")


class EarlyExit(OfOneServer):
    """A server can make a map of every answer, for which the whole model answers."""

    model = MODEL + ".exits"
    options = ("--precision", "float32", "--set=exit-threshold=-1")

    @classmethod
    def command(cls, threshold):
        words = ("-m", cls.model, "--precision", "float32", "--device", "cpu", "--views", "whole")
        return records(PROGRAM, GOOD[0], words=(*words, f"--set=exit-threshold={threshold}"))[0]

    def served(self):
        return json.loads(self.post(f"/v1/classify?name={GOOD[0]}", GOOD[0].read_bytes())[1])

    def test_nobody_leaves(self):
        found = self.served()
        self.assertEqual(without_seconds(found), without_seconds(self.command(1)))
        self.assertNotIn("exit_layer", found)


class ClassesAlone(EarlyExit):
    """A server without maps."""

    options = (*EarlyExit.options, "--method", "none")

    def test_nobody_leaves(self):
        """Everybody does."""
        found = self.served()
        self.assertLess(found["exit_layer"], 11)
        self.assertEqual(without_seconds(found), without_seconds(self.command(-1)))

    def test_what_there_is_not(self):
        for method, target, reason in (("POST", "/v1/explain", "without maps"), ("POST", "/v1/embed", "without embeddings"), ("GET", "/", "without")):
            with self.subTest(target):
                status, _, body = self.server.ask(method, target, GOOD[0].read_bytes() if method == "POST" else None)
                self.assertEqual(status, 400)
                self.assertIn(reason, error_of(body)["message"])


class Explain(OfOneServer):
    """Asks the bundled model, which has layers and patches enough."""

    model = MODEL
    options = ("--precision", "float32")

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.picture = GOOD[0]
        for layer in ("0", "last"):
            subprocess.run([PROGRAM, "visualize", *cls.words(), "--layer", layer, "--save-raw", "-q", "-o", cls.folder / layer,
                            cls.picture], env=ENVIRONMENT, timeout=SECONDS, check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def words(cls):
        return "-m", cls.model, "--device", "cpu", *cls.options

    def test_maps_are_those_of_visualize(self):
        for layer in ("0", "last"):
            array = (self.folder / layer / "baseline.map.npy").read_bytes()
            fields, body = self.post(f"/v1/explain?layer={layer}&format=npy", self.picture.read_bytes())
            self.assertEqual((fields["Content-Type"], body), ("application/x-npy", array))
            _, body = self.post(f"/v1/explain?layer={layer}", self.picture.read_bytes(), Accept="image/png")
            self.assertEqual(body, (self.folder / layer / "baseline.heatmap.png").read_bytes())
            _, body = self.post(f"/v1/explain?layer={layer}&name={self.picture}", self.picture.read_bytes())
            found = json.loads(body)
            maps = found.pop("maps")
            self.assertEqual(without_seconds(found), without_seconds(records(PROGRAM, self.picture, words=self.words())[0]))
            self.assertEqual(len(maps), 1)
            self.assertTrue(array.endswith(base64.b64decode(maps[0]["values"])))
            self.assertEqual(maps[0]["grid"], [maps[0]["vertical"]["cells"], maps[0]["horizontal"]["cells"]])

    def test_a_page_of_visualize_holds_what_is_answered_here(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PROGRAM, "visualize", self.picture, *self.words(), "--layer", "0,11", "--topk", "2", "-q",
                            "--html", f"{folder}/page.html", "-o", folder], env=ENVIRONMENT, timeout=SECONDS, check=True, stdout=subprocess.DEVNULL)
            page = (pathlib.Path(folder) / "page.html").read_text()
        embedded = json.loads(page.partition('class="data" data-thumbnail="')[2].partition(">")[2].partition("</script>")[0])
        answered = json.loads(self.post(f"/v1/explain?layer=0,11&topk=2&name={self.picture}", self.picture.read_bytes())[1])
        self.assertEqual(len(embedded["maps"]), 4)
        for answer in (embedded, answered):
            answer["maps"] = [without_seconds(each) for each in answer["maps"]]
        self.assertEqual(without_seconds(embedded), without_seconds(answered))

    def test_all_layers_and_classes(self):
        _, body = self.post("/v1/explain?topk=2&class=0", self.picture.read_bytes())
        maps = json.loads(body)["maps"]
        self.assertEqual({entry["layer"] for entry in maps}, set(range(12)))
        self.assertIn(0, {entry["class"]["index"] for entry in maps})

    def test_what_a_patch_attends_to(self):
        _, body = self.post("/v1/explain?patch=1,2&layer=0", self.picture.read_bytes())
        patch = json.loads(body)["patch"]
        values = struct.unpack(f"<{patch['grid'][0] * patch['grid'][1]}f", base64.b64decode(patch["values"]))
        self.assertTrue(all(0 <= value <= 1 for value in values))
        self.assertTrue(0.2 < sum(values) <= 1)  # the prefix has the rest
        _, array = self.post("/v1/explain?patch=1,2&layer=0&format=npy", self.picture.read_bytes())
        self.assertTrue(array.endswith(base64.b64decode(patch["values"])))
        _, other = self.post("/v1/explain?patch=0,0&layer=0", self.picture.read_bytes())
        self.assertNotEqual(json.loads(other)["patch"]["values"], patch["values"])

    def test_embeddings(self):
        _, body = self.post("/v1/embed", self.picture.read_bytes())
        embedding = json.loads(body)["embedding"]
        self.assertGreater(len(embedding), 8)
        self.assertGreater(len(set(embedding)), 8)


class ServerWithoutWords(OfOneServer):
    """The defaults of a request are those of the command line."""
    model = None
    options = ("--precision", "float32")
    alone = {"": (), "?views=zoom": ("--views", "zoom"), "?views=whole": ("--views", "whole"), "?views=native": ("--native",),
             "?model=deit_tiny_patch16_224.softmax": (),  # the server's own
             "?model=deit_tiny_patch16_224.hydra_last2": ("-m", "deit_tiny_patch16_224.hydra_last2")}

    def test_model_and_views_of_a_request(self):
        for query, words in self.alone.items():
            with self.subTest(query):
                found = json.loads(self.post("/v1/classify" + query, LARGE.read_bytes())[1])
                expected = records(PROGRAM, LARGE, words=(*words, "--precision", "float32", "--device", "cpu"))[0]
                for field in ("attention", "model_size", "finder"):
                    self.assertEqual(found.get(field), expected.get(field), field)
                self.assertEqual([each["box"] for each in found.get("views", [])], [each["box"] for each in expected.get("views", [])])
                self.assertEqual([each["index"] for each in found["top"]], [each["index"] for each in expected["top"]])

    def test_the_page_says_what_answers(self):
        for query, menus in (("?views=whole", ["softmax", "whole"]), ("?views=native", ["window", "native"]),
                             ("?model=deit_tiny_patch16_224.softmax", ["softmax", "zoom"])):
            settings = self.server.ask("GET", "/" + query)[2].decode().partition('id="settings"')[2]
            settings = json.loads(settings.partition(">")[2].partition("</script>")[0])
            self.assertEqual([menu["value"].rpartition(".")[2] for menu in settings["menus"]], menus, query)


class ServerOfAnOddName(unittest.TestCase):
    def test_the_page_and_its_menu(self):
        with tempfile.TemporaryDirectory() as folder:
            model = os.fsdecode(os.fsencode(folder) + b"/caf\xe9")
            shutil.copytree(TINY, model)
            server = Server(PROGRAM, *PREPARED, model=model)
            self.addCleanup(server.stop)
            status, _, page = server.ask("GET", "/")
            self.assertEqual(status, 200, page[:300])
            settings = json.loads(page.decode().partition('id="settings"')[2].partition(">")[2].partition("</script>")[0])
            menu = settings["menus"][0]
            self.assertIn("caf\ufffd", menu["value"])
            self.assertIn(menu["value"], menu["values"])
            target = "/v1/classify?model=" + urllib.parse.quote(menu["value"])
            self.assertEqual(server.ask("POST", target, GOOD[0].read_bytes())[0], 200)


class ServerOfWholePictures(ServerWithoutWords):
    options = ("--precision", "float32", "--views", "whole")
    alone = {"": ("--views", "whole"), "?views=native": ("--native",), "?views=zoom": ("--views", "zoom")}

    def test_the_page_says_what_answers(self):
        """One server shows it."""


class Http(OfOneServer):
    def test_routes(self):
        self.assertEqual(self.server.ask("GET", "/healthz")[::2], (200, b'{"status":"ok"}\n'))
        status, fields, body = self.server.ask("HEAD", "/healthz")
        self.assertEqual((status, fields["Content-Length"], body), (200, "16", b""))
        status, _, body = self.server.ask("GET", "/etc/passwd")
        self.assertEqual((status, error_of(body)["code"]), (404, "not_found"))
        status, fields, _ = self.server.ask("GET", "/v1/classify")
        self.assertEqual((status, fields["Allow"]), (405, "POST"))
        status, fields, _ = self.server.ask("DELETE", "/")
        self.assertEqual((status, fields["Allow"]), (405, "GET"))

    def test_the_page_loads_nothing_of_others(self):
        status, fields, body = self.server.ask("GET", "/")
        self.assertEqual(status, 200)
        self.assertIn("frame-ancestors 'none'", fields["Content-Security-Policy"])
        self.assertIn(b"connect-src 'self'", body)
        self.assertNotRegex(body, rb"(src|href)=\"(https?:)?//")
        self.assertNotIn("Access-Control-Allow-Origin", fields)

    def test_hosts_and_sites(self):
        for host in ("localhost", "localhost:80", "127.0.0.1:1", "[::1]:8080", "127.0.1.1:1"):
            self.assertEqual(self.server.ask("GET", "/healthz", Host=host)[0], 200, host)
        for host in ("example.org", "localhost.example.org", "127.0.0.1.example.org:80", ""):
            self.assertEqual(self.server.ask("GET", "/healthz", Host=host)[0], 403, host)

    def test_pages_of_other_origins(self):
        own, other = (f"//127.0.0.1:{self.server.port + more}" for more in (0, 1))
        asked = ("POST", "/v1/classify", GOOD[0].read_bytes()), ("GET", "/healthz", None), ("GET", "/", None)
        for headers in ({"Origin": "http://example.org"}, {"Origin": "null"}, {"Origin": "https:" + own}, {"Origin": "http:" + other},
                        {"Origin": "http://localhost"}, {"Origin": f"http:{own} http:{own}"}, {"Origin": "http:" + own, "X_Forwarded_Proto": "https"},
                        {"Origin": "http:" + own, "X_Forwarded_Host": "a.example"}, {"Sec_Fetch_Site": "cross-site"}, {"Sec_Fetch_Site": "same-site"},
                        {"Sec_Fetch_Site": "same-site", "Origin": "http:" + own}, {"Sec_Fetch_Site": "none", "Origin": "http://example.org"},
                        {"Sec_Fetch_Site": "same-origin", "Origin": "http://example.org"},
                        {"Sec_Fetch_Site": "same-origin", "Origin": "https://a.example", "Host": "localhost"}):
            for request in asked:
                with self.subTest(request[1], **headers):
                    status, fields, body = self.server.ask(*request, **headers)
                    self.assertEqual((status, error_of(body)["code"]), (403, "invalid_argument"))
                    self.assertIn("another origin", error_of(body)["message"])
                    self.assertNotIn("Access-Control-Allow-Origin", fields)
        proxied = {"X_Forwarded_Proto": "https", "X_Forwarded_Host": "a.example:443"}
        for headers in ({}, {"Origin": "http:" + own}, {"Origin": "http://localhost", "Host": "LocalHost:80"}, {"Origin": "http://[::1]", "Host": "[::1]"},
                        {"Origin": "https://a.example", **proxied}, {"Origin": "http://a.example:81", "X_Forwarded_Host": "a.example:81, b"},
                        {"Sec_Fetch_Site": "none"}, {"Sec_Fetch_Site": "same-origin", "Origin": "http:" + own}, {"Sec_Fetch_Site": "same-origin", "Origin": "https://a.example", **proxied}):
            for request in asked:
                with self.subTest(request[1], **headers):
                    self.assertEqual(self.server.ask(*request, **headers)[0], 200)

    def test_targets_that_name_a_host(self):
        absolute = b"GET http://%s/healthz HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n"
        self.assertIn(b" 200 OK", self.server.raw(absolute % (b"localhost:80", b"example.org")))  # the target's counts
        self.assertIn(b" 403 ", self.server.raw(absolute % (b"example.org", b"localhost")))
        self.assertIn(b" 400 ", self.server.raw(b"GET http://localhost/healthz HTTP/1.1\r\n\r\n"))  # Host is required all the same
        self.assertIn(b" 200 OK", self.server.raw(b"GET /healthz HTTP/1.0\r\n\r\n"))

    def test_what_is_no_request(self):
        zipped = b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"
        self.assertIn(b" 501 ", self.server.raw(zipped))
        self.assertIn(b" 400 ", self.server.raw(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"))
        self.assertIn(b" 400 ", self.server.raw(b"GET /healthz HTTP/1.1\r\n\r\n"))  # no host
        self.assertIn(b" 400 ", self.server.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n"))
        self.assertIn(b" 411 ", self.server.raw(b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\n\r\n"))
        self.assertIn(b" 431 ", self.server.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nA: " + b"a" * 20000 + b"\r\n\r\n"))
        self.assertIn(b" 400 ", self.server.raw(b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n"))
        both = b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
        self.assertIn(b" 400 ", self.server.raw(both))

    def test_pieces_and_continue(self):
        picture = GOOD[0].read_bytes()
        head = b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        pieces = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (picture[:100], picture[100:])) + b"0\r\n\r\n"
        self.assertIn(b" 200 OK", self.server.raw(head + b"Transfer-Encoding: chunked\r\n\r\n" + pieces))
        with self.server.connect() as connection:
            connection.sendall(head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(picture))
            self.assertEqual(connection.recv(100), b"HTTP/1.1 100 Continue\r\n\r\n")
            connection.sendall(picture)
            self.assertIn(b" 200 OK", everything(connection))

    def test_requests_one_after_the_other_on_a_connection(self):
        one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        found = self.server.raw(2 * one + one.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        self.assertEqual(found.count(b" 200 OK"), 3)

    def test_counts(self):
        before = self.server.metrics()
        self.post("/v1/classify", GOOD[0].read_bytes())
        self.post("/v1/classify", b"no picture", 415)
        status, fields, text = self.server.ask("GET", "/metrics")
        self.assertEqual((status, fields["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        after = samples(text.decode())
        grown = {key: after[key] - before.get(key, 0) for key in after}
        self.assertEqual(grown['hydrascope_requests_total{route="/v1/classify",status="200"}'], 1)
        self.assertEqual(grown['hydrascope_requests_total{route="/v1/classify",status="415"}'], 1)
        self.assertEqual(grown["hydrascope_pictures_total"], 2)
        self.assertEqual(grown["hydrascope_pictures_failed_total"], 1)
        self.assertEqual(grown["hydrascope_batch_images_sum"], 1)
        self.assertEqual(grown['hydrascope_batch_seconds_bucket{le="+Inf"}'], grown["hydrascope_batch_seconds_count"])
        self.assertEqual(after["hydrascope_queue_requests"], 0)
        self.assertEqual((after["hydrascope_work_layers"], after["hydrascope_work_layers_done"]), (0, 0))
        self.assertGreater(after["process_resident_memory_bytes"], 1e7)
        with contextlib.suppress(ImportError):
            from prometheus_client.parser import text_string_to_metric_families  # pylint: disable=import-outside-toplevel
            families = {family.name for family in text_string_to_metric_families(text.decode())}
            self.assertIn("hydrascope_request_seconds", families)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(argv=sys.argv, verbosity=1 if re.search("-q", " ".join(sys.argv)) else 2)
