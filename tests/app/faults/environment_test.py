"""The program where its surroundings are odd: open streams as names of files, long names, narrow limits, no /proc, no home, few processors.

    environment_test.py PROGRAM [unittest's words]

Each case is right, or one line of error with the exit code that docs/cli.md has for it; nothing that was there is harmed.
"""

import json
import os
import pathlib
import pwd
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[3]
TINY = SOURCE / "tests/corpus/states/0.1/tiny"
PHOTO = str(SOURCE / "assets/images/otter-head.jpg")
CLASSIFY = ["classify", PHOTO, "-m", str(TINY), "--topk", "1", "--format", "csv", "--precision", "float32", "--device", "cpu", "-q"]
PROGRAM = ""


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def run_program(self, *words, environment=None, prefix=(), **more):
        everything = dict(os.environ, OMP_WAIT_POLICY="passive", **(environment or {}))
        everything = {key: value for key, value in everything.items() if value is not None}
        more.setdefault("stdout", subprocess.PIPE)
        more.setdefault("stderr", subprocess.PIPE)
        more.setdefault("cwd", self.folder)
        return subprocess.run([*prefix, PROGRAM, *words], env=everything, timeout=240, check=False, **more)

    def assert_refused(self, done, *texts, codes=(1, 2)):
        """One line of error, perhaps a hint."""
        said = done.stderr.decode(errors="replace")
        self.assertIn(done.returncode, codes, said)
        lines = [line for line in said.splitlines() if not line.startswith(("hint: ", "note: "))]
        self.assertEqual(len(lines), 1, said)
        self.assertTrue(lines[0].startswith("error: "), said)
        for text in texts:
            self.assertIn(text, said)

    def names(self):
        return sorted(entry.name for entry in self.folder.iterdir())


class Streams(Case):
    """/dev/stdout, /dev/fd/N and what leads to them are streams: what they append to is never replaced."""

    def spellings(self, number):
        known = {1: "/dev/stdout", 2: "/dev/stderr"}
        plain = [f"/dev/fd/{number}", f"/proc/self/fd/{number}", f"/proc/thread-self/fd/{number}"] + [known[number] for _ in range(number in known)]
        for place, target in enumerate(plain):
            (self.folder / f"link{place}").symlink_to(target)
            (self.folder / f"link{place}of").symlink_to(f"link{place}")
        return plain + [f"link{place}{end}" for place in range(len(plain)) for end in ("", "of")] + [f"/dev/../dev/fd/{number}"]

    def test_a_log_keeps_what_it_has(self):
        whole = self.run_program(*CLASSIFY).stdout
        self.assertEqual(whole.count(b"\n"), 2)
        log = self.folder / "log"
        for number in (1, 2, 0):
            with open(log, "wb") as opened:
                spellings = self.spellings(number or opened.fileno())
            before = self.names()
            for spelling in spellings:
                with self.subTest(spelling):
                    log.write_bytes(b"old\n")
                    with open(log, "ab") as opened:
                        streams = {1: {"stdout": opened}, 2: {"stderr": opened}, 0: {"pass_fds": (opened.fileno(),)}}[number]
                        done = self.run_program(*CLASSIFY, "-o", spelling, **streams)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(self.without_times(log.read_bytes()), self.without_times(b"old\n" + whole))
                    self.assertEqual(self.names(), before)
            for link in self.folder.glob("link*"):
                link.unlink()

    @staticmethod
    def without_times(text):
        """A record's milliseconds differ from run to run."""
        return [line.split(b",")[:3] for line in text.splitlines()]

    def test_writing_begins_where_the_stream_stands(self):
        log = self.folder / "log"
        with open(log, "wb") as opened:
            opened.write(b"first\n")
            opened.flush()
            done = self.run_program(*CLASSIFY, "-o", "/dev/stdout", stdout=opened)
            self.assertEqual(done.returncode, 0, done.stderr)
            opened.seek(0, os.SEEK_END)
            opened.write(b"last\n")
        lines = log.read_bytes().splitlines()
        self.assertEqual((len(lines), lines[0], lines[-1]), (4, b"first", b"last"))

    def test_other_processes_streams_are_appended_to(self):
        log = self.folder / "log"
        log.write_bytes(b"old\n")
        with open(log, "ab") as opened:
            done = self.run_program(*CLASSIFY, "-o", f"/proc/{os.getpid()}/fd/{opened.fileno()}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(log.read_bytes().splitlines()), 3)
        self.assertEqual(self.names(), ["log"])

    def test_pipes(self):
        for name in ("/dev/stdout", "/dev/fd/1", "-"):
            self.assertEqual(len(self.run_program(*CLASSIFY, "-o", name).stdout.splitlines()), 2)
        done = subprocess.run(["bash", "-c", '"$@" -o >(cat > got); wait', "bash", PROGRAM, *CLASSIFY], cwd=self.folder, check=False, timeout=240)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len((self.folder / "got").read_bytes().splitlines()), 2)

    def test_streams_that_cannot_be_written(self):
        (self.folder / "log").write_bytes(b"old\n")
        self.assert_refused(self.run_program(*CLASSIFY, "-o", "/dev/fd/77"), "not open", "/dev/fd/77", codes=(1,))
        with open(self.folder / "log", "rb") as opened:
            self.assert_refused(self.run_program(*CLASSIFY, "-o", f"/dev/fd/{opened.fileno()}", pass_fds=(opened.fileno(),)), "for reading only",
                                codes=(1,))
            self.assert_refused(self.run_program(*CLASSIFY, "-o", "/dev/stdout", stdout=opened), codes=(1,))
        self.assertEqual((self.folder / "log").read_bytes(), b"old\n")

    def test_whole_files_are_no_streams(self):
        (self.folder / "log").write_bytes(b"old\n")
        for ending in (".npy", ".html", ".safetensors"):
            (self.folder / f"link{ending}").symlink_to("/dev/fd/1")
        (self.folder / "set/a").mkdir(parents=True)
        shutil.copy(PHOTO, self.folder / "set/a/1.jpg")
        before = self.names()
        tiny = ["-m", str(TINY)]
        for words in ([*CLASSIFY, "--save-logits", "/dev/stdout"], [*CLASSIFY, "--save-input", "link.npy"],
                      ["evaluate", "set", *tiny, "--set", "no-labels=on", "--save-logits", "/dev/fd/1"],
                      ["visualize", PHOTO, *tiny, "-o", "maps", "--html", "link.html"],
                      ["visualize", PHOTO, *tiny, "-o", "/dev/stdout"],
                      ["models", "create", "vit_tiny_patch16_224", "-o", "/dev/stdout"],
                      ["models", "create", "vit_tiny_patch16_224", "-o", "link.safetensors"],
                      ["convert", str(TINY), "/dev/stdout"], ["convert", str(TINY), "link.safetensors", "--force"],
                      ["convert", "--attn", "hydra", *tiny, "-i", "set", "-o", "link.safetensors", "--force", "--processes", "1"],
                      ["train", "set", *tiny, "-o", "/dev/stdout"],
                      [*CLASSIFY, "--format", "jsonl", "--resume", "-o", "/dev/stdout"]):
            with self.subTest(words[0] + " " + words[-1]), open(self.folder / "log", "ab") as log:
                self.assert_refused(self.run_program(*words, stdout=log))
                self.assertEqual((self.folder / "log").read_bytes(), b"old\n")
                self.assertTrue(stat.S_ISLNK(os.lstat("/dev/stdout").st_mode))
                self.assertEqual([name for name in self.names() if name != "maps"], before)

    def test_other_special_files(self):
        os.mkfifo(self.folder / "pipe")
        reader = subprocess.Popen(["cat", "pipe"], cwd=self.folder, stdout=subprocess.PIPE)
        self.assertEqual(self.run_program(*CLASSIFY, "-o", "pipe").returncode, 0)
        self.assertEqual(len(reader.communicate()[0].splitlines()), 2)
        self.assertEqual(self.run_program(*CLASSIFY, "-o", "/dev/null").returncode, 0)
        self.assert_refused(self.run_program(*CLASSIFY, "-o", "/dev/full"), codes=(1,))
        self.assert_refused(self.run_program(*CLASSIFY, "-o", "."), codes=(1, 2))
        if os.geteuid() == 0:
            try:
                os.mknod(self.folder / "disk", 0o600 | stat.S_IFBLK, os.makedev(7, 255))
            except OSError:
                return
            self.assert_refused(self.run_program(*CLASSIFY, "-o", "disk"), "found a disk", codes=(1,))


class Inputs(Case):
    """A file that the run reads is never written, whatever it is called there."""

    def setUp(self):
        super().setUp()
        shutil.copytree(TINY, self.folder / "tiny")
        shutil.copy(PHOTO, self.folder / "photo.jpg")
        (self.folder / "set/a").mkdir(parents=True)
        for number in range(2):
            pixels = bytes((x * 7 + number * 31) % 256 for x in range(40 * 32 * 3))
            (self.folder / f"set/a/{number}.ppm").write_bytes(b"P6\n40 32\n255\n" + pixels)
        (self.folder / "list.txt").write_text("photo.jpg\n")
        (self.folder / "names.txt").write_text("one\ntwo\nthree\n")
        (self.folder / "labels.csv").write_text("file,label\na/0.ppm,0\na/1.ppm,1\n")
        (self.folder / "options.json").write_text('{"topk": 1}')
        (self.folder / "film.mp4").write_bytes(b"\0\0\0\x18ftypmp42")
        (self.folder / "link.jpg").symlink_to("photo.jpg")
        os.link(self.folder / "photo.jpg", self.folder / "hard.jpg")

    def contents(self):
        return {str(file.relative_to(self.folder)): file.read_bytes() for file in self.folder.rglob("*") if file.is_file()}

    def test_no_command_writes_what_it_reads(self):
        tiny = ["-m", "tiny"]
        classify = ["classify", *tiny]
        evaluate = ["evaluate", "set", *tiny, "--labels-csv", "labels.csv"]
        address = "file://" + str(self.folder / "photo.jpg")
        before = self.contents()
        for words in ([*classify, "photo.jpg", "-o", "photo.jpg"], [*classify, "photo.jpg", "-o", "set/../photo.jpg"],
                      [*classify, "photo.jpg", "-o", "link.jpg"], [*classify, "link.jpg", "-o", "photo.jpg"],
                      [*classify, "photo.jpg", "-o", "hard.jpg"], [*classify, address, "-o", "photo.jpg"],
                      [*classify, "photo.jpg", "--save-logits", "photo.jpg"], [*classify, "photo.jpg", "--save-input", "photo.jpg"],
                      [*classify, "@list.txt", "-o", "list.txt"], [*classify, "-i", "@list.txt", "-o", str(self.folder / "list.txt")],
                      [*classify, "photo.jpg", "--labels", "names.txt", "-o", "names.txt"],
                      [*classify, "photo.jpg", "-c", "options.json", "-o", "options.json"],
                      [*classify, "set/a", "-o", "set/a/0.ppm"], [*classify, "set/*/*.ppm", "-o", "set/a/1.ppm"],
                      [*classify, "photo.jpg", "-o", "film.mp4"], [*classify, "photo.jpg", "-o", "tiny/config.json"],
                      ["benchmark", *tiny, "--baseline", "list.txt", "-o", "list.txt"], [*classify, "photo.jpg", "-o", "tiny/model.safetensors"],
                      [*classify, "photo.jpg", "-o", "a.npy", "--save-logits", "./a.npy"],
                      [*evaluate, "-o", "labels.csv"], [*evaluate, "--per-class", "labels.csv"], [*evaluate, "--html", "labels.csv"],
                      [*evaluate, "--save-logits", "set/a/0.ppm"],
                      ["compare", "set/a", *tiny, "--against", "tiny/model.safetensors", "--attn", "hydra", "-o", "tiny/model.safetensors"],
                      ["diagnose", "set", *tiny, "-o", "set/a/0.ppm"], ["faithfulness", "set/a", *tiny, "--set", "no-labels=on", "-o", "set/a/0.ppm"],
                      ["visualize", "photo.jpg", *tiny, "-o", "maps", "--html", "photo.jpg"],
                      ["models", "info", "tiny/model.safetensors", "-o", "tiny/model.safetensors"],
                      ["models", "info", "tiny", "-o", "tiny/model.safetensors"], ["doctor", "-o", "photo.jpg"],
                      ["convert", "tiny", "tiny/model.safetensors", "--force"],
                      ["convert", "tiny/model.safetensors", "tiny/../tiny/model.safetensors", "--force"],
                      ["convert", "--attn", "hydra", "-m", "tiny", "-i", "set", "-o", "tiny/model.safetensors", "--force", "--processes", "1"]):
            with self.subTest(" ".join(words)):
                self.assert_refused(self.run_program(*words), codes=(2,))
                self.assertEqual(self.contents(), before)
        with open(self.folder / "list.txt", "rb") as listed:
            self.assert_refused(self.run_program(*classify, "-", "-o", "list.txt", stdin=listed), codes=(2,))
        self.assertEqual(self.contents(), before)

    def test_results_replace_results(self):
        words = ["classify", "photo.jpg", "-m", "tiny", "-o", "r.csv", "--save-logits", "l.npy", "-q"]
        for _ in range(2):
            self.assertEqual(self.run_program(*words).returncode, 0)
        self.assertEqual(len((self.folder / "r.csv").read_bytes().splitlines()), 3)

    def test_heatmaps_of_found_pictures_that_are_heatmaps(self):
        for _ in range(2):
            self.assertEqual(self.run_program("visualize", "set/a", "-m", "tiny", "-o", "set/a").returncode, 0)
        first = (self.folder / "set/a/0.heatmap.png").read_bytes()
        self.assertEqual(self.run_program("visualize", "set/a", "-m", "tiny", "-o", "set/a", "--alpha", "0").returncode, 0)
        self.assertEqual((self.folder / "set/a/0.heatmap.png").read_bytes(), first)
        self.assertTrue((self.folder / "set/a/0-2.heatmap.png").exists())


class LongNames(Case):
    """Names of as many bytes as the file system takes beside a part."""

    def test_every_length_up_to_the_longest(self):
        for length in (240, 250):
            for letter in ("x", "é", "文"):
                stem = (letter * 255).encode()[: length - 4].decode(errors="ignore")
                name = stem + "x" * (length - 4 - len(stem.encode()))
                with self.subTest(f"{length} {letter}"):
                    done = self.run_program(*CLASSIFY, "-o", name + ".csv", "--save-logits", name + ".npy")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertEqual(self.names(), [name + ".csv", name + ".npy"])
                    for file in self.folder.iterdir():
                        file.unlink()
        self.assert_refused(self.run_program(*CLASSIFY, "-o", "x" * 251), "too long", codes=(1,))

    def test_interrupted_records_go_on(self):
        name = "y" * 244 + ".jsonl"
        words = ["classify", PHOTO, "-m", str(TINY), "--format", "jsonl", "-o", name]
        self.assertEqual(self.run_program(*words).returncode, 0)
        whole = (self.folder / name).read_bytes()
        done = self.run_program(*words, "--resume")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"1 inputs are answered already", done.stderr)
        self.assertEqual((self.folder / name).read_bytes(), whole)

    def test_other_files(self):
        for letter in "ab":
            (self.folder / "set" / letter).mkdir(parents=True)
            for number in range(2):
                pixels = bytes((x * 7 + number * 31) % 256 for x in range(40 * 32 * 3))
                (self.folder / "set" / letter / f"{number}.ppm").write_bytes(b"P6\n40 32\n255\n" + pixels)
        tiny = ["-m", str(TINY)]
        learn = ["--batch-size", "2", "--set", "maps.batch-size=2", "--set", "steps-maps=1", "--set", "steps-outputs=1", "--epochs", "1", "--held-out", "1",
                 "--threads", "1", "--set", "workers=1", "--device", "cpu"]
        name = "z" * 243
        for words in (["visualize", "set/a/0.ppm", *tiny, "-o", "maps", "--html", name + ".html"],
                      ["evaluate", "set", *tiny, "--recursive", "--set", "no-labels=on", "-o", name + ".json"],
                      ["models", "create", "vit_tiny_patch16_224", "-o", name + ".safetensors", "-q"],
                      ["convert", str(TINY), name[:-1] + "2.safetensors"],
                      ["convert", "--attn", "hedgehog", *tiny, "-i", "set", "-o", "q" * 234 + ".safetensors", *learn],
                      ["diagnose", "set", *tiny, "-o", name + ".html"]):
            with self.subTest(words[0]):
                done = self.run_program(*words)
                self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([entry for entry in self.names() if entry.startswith(".") or entry.endswith(".part")], [])


class Limits(Case):
    """Limits that the shell's ulimit sets."""

    def limited(self, what, amount, *words, **more):
        def narrow():
            resource.setrlimit(what, (amount, amount))
        return self.run_program(*words, preexec_fn=narrow, **more)

    def test_memory(self):
        (self.folder / "set/a").mkdir(parents=True)
        shutil.copy(PHOTO, self.folder / "set/a/1.jpg")
        tiny = ["-m", str(TINY)]
        commands = [["version"], ["help"], ["doctor"], ["models", "list"], ["models", "info", str(TINY)], CLASSIFY, ["visualize", PHOTO, *tiny, "-o", "m"],
                    ["evaluate", "set", *tiny, "--recursive", "--set", "no-labels=on"], ["convert", str(TINY), "o.safetensors", "--force"]]
        fine = [words for words in commands if words[0] in ("classify", "visualize", "evaluate")]
        for megabytes in (50, *range(100, 760, 60), 800, 1000, 2000):
            for words in commands if megabytes % 100 == 0 else fine:
                with self.subTest(f"{megabytes} MB {words[0]}"):
                    done = self.limited(resource.RLIMIT_AS, megabytes << 20, *words)
                    said = done.stderr.decode(errors="replace")
                    self.assertIn(done.returncode, (0, 1, 3), said)
                    self.assertNotIn("terminate", said)
                    if done.returncode == 1:
                        self.assert_refused(done, "memory", codes=(1,))

    def test_sizes_of_files(self):
        earlier = b"input,frame,time,width,height,model_height\n"
        (self.folder / "old.csv").write_bytes(earlier)
        old = ["-o", "old.csv"]
        for most, words, name in ((0, [*CLASSIFY, *old], "old.csv"), (100, [*CLASSIFY, "--save-logits", "l.npy"], "l.npy"),
                                  (1000, ["convert", str(TINY), "o.safetensors"], "o.safetensors"),
                                  (100, ["embed", PHOTO, "-m", str(TINY), "-o", "s.safetensors"], "s.safetensors"),
                                  (0, ["diagnose", PHOTO, "-m", str(TINY), "-o", "d.html"], "d.html"),
                                  (0, ["visualize", PHOTO, "-m", str(TINY), "-o", "m", "--html", "h.html", "-q"], "h.html")):
            with self.subTest(words[0]):
                self.assert_refused(self.limited(resource.RLIMIT_FSIZE, most, *words), name, f"`ulimit -f` limits files to {most} bytes",
                                    codes=(1,))
        shutil.rmtree(self.folder / "m")
        for words in (CLASSIFY, ["help"], ["models", "list"], ["models", "info", str(TINY)], ["visualize", PHOTO, "-m", str(TINY), "-o", "m"]):
            with self.subTest(words[0]), open(self.folder / "log", "wb") as log:
                self.assert_refused(self.limited(resource.RLIMIT_FSIZE, 0, *words, stdout=log), "standard output", "`ulimit -f` limits files",
                                    codes=(1,))
        shutil.rmtree(self.folder / "m")
        self.assertEqual((self.folder / "old.csv").read_bytes(), earlier)
        # A stopped store is gone on with.
        self.assertEqual([name for name in self.names() if not name.startswith("s.safetensors.")], ["log", "old.csv"])

    def test_a_working_folder_that_was_removed(self):
        gone = self.folder / "gone"
        gone.mkdir()
        command = ["bash", "-c", 'rmdir ../gone && exec "$@"', "bash", PROGRAM]
        done = subprocess.run([*command, *CLASSIFY], cwd=gone, capture_output=True, check=False, timeout=240)
        self.assert_refused(done, "working folder", codes=(1,))
        gone.mkdir()
        done = subprocess.run([*command, "help"], cwd=gone, capture_output=True, check=False, timeout=240)
        self.assertEqual((done.returncode, done.stderr), (0, b""))

    def test_names_that_are_too_long(self):
        for words in ([*CLASSIFY, "-o", "x" * 256], [*CLASSIFY, "--save-logits", "x" * 256], ["convert", str(TINY), "x" * 250 + ".safetensors"],
                      ["visualize", PHOTO, "-m", str(TINY), "-o", "x" * 256]):
            with self.subTest(words[0]):
                self.assert_refused(self.run_program(*words), "too long")

    def test_open_files(self):
        for most in range(3, 20):
            done = self.limited(resource.RLIMIT_NOFILE, most, *CLASSIFY)
            if done.returncode not in (0, 3, 127):  # 127: the loader's
                self.assert_refused(done, codes=(1, 2))


class Surroundings(Case):
    """Namespaces without /proc and without devices."""

    def inside(self, script, *words, **more):
        tried = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
        if tried.returncode != 0:
            self.skipTest("no namespace of its own for a program: " + tried.stderr.decode().strip())
        return self.run_program(*words, prefix=("unshare", "-m", "bash", "-c", script + ' && exec "$@"', "bash"), **more)

    def test_without_proc(self):
        hide = "umount -l /proc"
        whole = self.run_program(*CLASSIFY, "-o", "whole.csv")
        self.assertEqual(whole.returncode, 0)
        bundled = ["classify", PHOTO, "--topk", "1", "-q"]  # in half precision
        for words in ([*CLASSIFY, "-o", "r.csv"], bundled, ["doctor"], ["models", "path"], ["version"]):
            with self.subTest(words[0] + words[-1]):
                done = self.inside(hide, *words)
                self.assertEqual((done.returncode, done.stderr), (0, b""))
                self.assertEqual(self.inside("mount -t tmpfs none /proc", *words).returncode, 0)
        self.assertEqual(len((self.folder / "r.csv").read_bytes().splitlines()), 2)
        # By a relative name, and by a name that is looked up in PATH.
        home = pathlib.Path(PROGRAM).parent
        self.assertEqual(subprocess.run(["unshare", "-m", "bash", "-c", hide + " && ./hydrascope models path"], cwd=home, stdout=subprocess.DEVNULL,
                                        check=False).returncode, 0)
        self.assertEqual(subprocess.run(["unshare", "-m", "bash", "-c", hide + " && PATH=.:$PATH hydrascope models path"], cwd=home,
                                        stdout=subprocess.DEVNULL, check=False).returncode, 0)
        log = self.folder / "log"
        log.write_bytes(b"old\n")
        with open(log, "ab") as opened:
            self.assertEqual(self.inside(hide, *CLASSIFY, "-o", "/dev/stdout", stdout=opened).returncode, 0)
        self.assertEqual(len(log.read_bytes().splitlines()), 3)

    def test_without_devices(self):
        # LibTorch wants random numbers.
        hide = "touch random && mount --bind /dev/urandom random && mount -t tmpfs none /dev && touch /dev/urandom && mount --bind random /dev/urandom"
        for words in (CLASSIFY, ["doctor", "--self-test"]):
            done = self.inside(hide, *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertGreater(len(done.stdout.splitlines()), 1)
        done = self.inside("mount -t tmpfs none /dev", *CLASSIFY)
        self.assert_refused(done, "/dev/urandom", codes=(1,))

    def test_a_folder_for_temporary_files_that_cannot_be_written(self):
        for place in ("/tmp", "/dev/shm"):
            hide = f"mount --bind {place} {place} && mount -o remount,ro,bind {place}"
            done = self.inside(hide, *CLASSIFY, cwd="/")
            self.assertEqual(done.returncode, 0, done.stderr)


class Processors(Case):
    def test_doctor_counts_what_the_quota_leaves(self):
        place = pathlib.Path("/sys/fs/cgroup/cpu")
        group = place / f"hydrascope-{os.getpid()}"
        if not (place / "cpu.cfs_quota_us").exists() and not os.access("/sys/fs/cgroup/cgroup.procs", os.W_OK):
            self.skipTest("no cgroup can be made here")
        is_old = place.exists()
        group = group if is_old else pathlib.Path(f"/sys/fs/cgroup/hydrascope-{os.getpid()}")
        try:
            group.mkdir()
        except OSError:
            self.skipTest("no cgroup can be made here")
        self.addCleanup(group.rmdir)
        try:
            (group / "cpu.cfs_quota_us").write_text("90000") if is_old else (group / "cpu.max").write_text("90000 100000")
        except OSError:
            self.skipTest("no cgroup can be made here")
        done = subprocess.run(["bash", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "bash", PROGRAM, "doctor", "--format", "json"],
                              capture_output=True, check=False, timeout=240)
        self.assertEqual(json.loads(done.stdout)["processors"], 1)
        done = subprocess.run(["bash", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "bash", PROGRAM, *CLASSIFY[:-1], "-v"],
                              capture_output=True, check=False, timeout=240)
        self.assertIn(b"threads=1 workers=1", done.stderr)


class Home(Case):
    """The place of Hugging Face's cache."""

    def cache(self, **environment):
        unset = {name: None for name in ("HOME", "XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE")}
        done = self.run_program("models", "path", "hf-hub:no/such", environment={**unset, **environment})
        self.assert_refused(done, "is not in Hugging Face's cache", codes=(2,))
        self.assertEqual(self.names(), [])
        return done.stderr.decode().partition("cache, ")[2].partition(" (hf-hub")[0]

    def test_as_hugging_faces_tools_have_it(self):
        home = pwd.getpwuid(os.getuid()).pw_dir
        usual = f"{home}/.cache/huggingface/hub"
        for environment, expected in (
            ({}, usual), ({"HOME": ""}, usual), ({"HOME": "relative"}, usual), ({"HOME": "/h"}, "/h/.cache/huggingface/hub"),
            ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"), ({"XDG_CACHE_HOME": ""}, usual), ({"XDG_CACHE_HOME": "x/y"}, usual),
            ({"HF_HOME": "/f", "XDG_CACHE_HOME": "/x"}, "/f/hub"), ({"HF_HOME": "~/f", "HOME": "/h"}, "/h/f/hub"), ({"HF_HOME": "~/f"}, f"{home}/f/hub"),
            ({"HF_HUB_CACHE": "/c", "HF_HOME": "/f"}, "/c"),
            ({"HUGGINGFACE_HUB_CACHE": "/old"}, "/old"),
        ):
            with self.subTest(environment):
                self.assertEqual(self.cache(**environment), expected)


if __name__ == "__main__":
    PROGRAM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
