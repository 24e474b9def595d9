"""A headless Chromium, driven over the pipe of its DevTools protocol; the standard library only."""

import json
import os
import select
import shutil
import signal
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TIMEOUT_SECONDS = 30


def find():
    """The browser's path (HYDRASCOPE_CHROMIUM wins), or None."""
    wanted = os.environ.get("HYDRASCOPE_CHROMIUM")
    return wanted or next(filter(None, map(shutil.which, NAMES)), None)


class Chromium:
    """One browser with one tab. `problems` collects what the console shows, and every request that leaves the page."""

    def __init__(self, program):
        self._profile = tempfile.mkdtemp(prefix="hydrascope-chromium-")
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        # The browser reads commands from descriptor 3 and writes to 4. The copies come from high numbers, so
        # that no copy closes what is still to be copied.
        moved = [os.dup2(end, 100 + i) for i, end in enumerate((to_read, to_write))]
        null = os.open(os.devnull, os.O_RDWR)
        actions = [(os.POSIX_SPAWN_DUP2, moved[0], 3), (os.POSIX_SPAWN_DUP2, moved[1], 4)]
        actions += [(os.POSIX_SPAWN_DUP2, null, stream) for stream in (0, 1, 2)]
        self._process = os.posix_spawn(program, [
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
            "--disable-background-networking", "--hide-scrollbars", "--force-device-scale-factor=1",
            "--remote-debugging-pipe", f"--user-data-dir={self._profile}", "about:blank"
        ], os.environ, file_actions=actions, setpgroup=0)
        for descriptor in (to_read, to_write, null, *moved):
            os.close(descriptor)
        self._buffer = b""
        self._number = 0
        self._session = None
        self._events = []
        self.problems = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        os.killpg(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)
        os.close(self._read)
        os.close(self._write)
        shutil.rmtree(self._profile, ignore_errors=True)  # its other processes may still be writing

    def _message(self):
        while b"\0" not in self._buffer:
            if not select.select([self._read], [], [], TIMEOUT_SECONDS)[0]:
                raise TimeoutError(f"the browser said nothing for {TIMEOUT_SECONDS} s")
            chunk = os.read(self._read, 1 << 20)
            if not chunk:
                raise ConnectionError("the browser ended")
            self._buffer += chunk
        text, self._buffer = self._buffer.split(b"\0", 1)
        return json.loads(text)

    def _note(self, event):
        method, parameters = event["method"], event["params"]
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Log.entryAdded":
            self.problems.append(parameters["entry"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.problems.append(str(parameters["args"]))
        elif method == "Network.requestWillBeSent":
            url = parameters["request"]["url"]
            if not url.startswith(("data:", "blob:", "file:", "about:")):
                self.problems.append(f"a request for {url}")
        self._events.append(method)

    def call(self, method, **parameters):
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if self._session and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data):]
        while True:
            answer = self._message()
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer:
                self._note(answer)

    def open(self, url):
        self._events.clear()
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self._events:
            answer = self._message()
            if "method" in answer:
                self._note(answer)

    def evaluate(self, expression):
        """The value of a JavaScript expression, awaited, as JSON carries it."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression):
        end = time.monotonic() + TIMEOUT_SECONDS
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise TimeoutError(f"never true: {expression}")
            time.sleep(0.05)

    def resize(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def prefer(self, theme):
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])

    def move_mouse(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, x, y):
        self.move_mouse(x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def tap(self, x, y):
        """With a finger: the mouse events that follow a touch are the browser's own."""
        self.call("Emulation.setTouchEmulationEnabled", enabled=True)
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.call("Emulation.setTouchEmulationEnabled", enabled=False)

    def drag(self, start, end, steps=4):
        """With the mouse, from one point to another."""
        self.move_mouse(*start)
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], button="left", clickCount=1)
        for i in range(1, steps + 1):
            x, y = (a + (b - a) * i / steps for a, b in zip(start, end))
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], button="left", clickCount=1)

    def press(self, key, shift=False):
        code = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38,
                "ArrowRight": 39, "ArrowDown": 40, " ": 32}[key]
        text = {"text": {"Enter": "\r", " ": " "}[key]} if key in ("Enter", " ") else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code="Space" if key == " " else key,
                      windowsVirtualKeyCode=code, modifiers=8 if shift else 0, **(text if kind == "keyDown" else {}))

    def screenshot(self, whole_page=False):
        """A PNG in base64."""
        return self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole_page)["data"]
