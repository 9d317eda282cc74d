"""A headless Chromium that tests drive through its debugging pipe; needs nothing but the browser.

    with Browser() as browser:
        page = browser.open(path)
        page.run("document.title")
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell")
HINT = "no browser: ./dev test installs chromium where it can (Debian: apt-get install chromium)"


def find():
    """The path of a browser, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """Messages are JSON ended by a zero byte: commands to file descriptor 3, answers from 4."""

    def __init__(self, width=1400, height=900, dark=False):
        self.dark = dark
        self.folder = tempfile.TemporaryDirectory(prefix="weft-browser-", ignore_cleanup_errors=True)
        command_read, self.to = os.pipe()
        self.answers, answer_write = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
                 "--remote-debugging-pipe", f"--window-size={width},{height}", f"--user-data-dir={self.folder.name}", "about:blank"]
        # By a shell: Python would fork to do it, which threads of JAX may not survive.
        shell = ["bash", "-c", f'exec "$@" 3<&{command_read} 4>&{answer_write}', "bash"]
        self.process = subprocess.Popen([*shell, find(), *flags], pass_fds=(command_read, answer_write),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(command_read)
        os.close(answer_write)
        self.next, self.pending, self.events = 1, b"", []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.to)
        os.close(self.answers)
        self.folder.cleanup()

    def receive(self):
        while b"\0" not in self.pending:
            piece = os.read(self.answers, 1 << 20)
            assert piece, "the browser ended"
            self.pending += piece
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, session=None, seconds=60, **parameters):
        number, self.next = self.next, self.next + 1
        message = {"id": number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        watchdog = threading.Timer(seconds, self.process.kill)
        watchdog.start()
        try:
            os.write(self.to, json.dumps(message).encode() + b"\0")
            while True:
                answer = self.receive()
                if answer.get("id") == number:
                    assert "error" not in answer, (method, answer["error"])
                    return answer["result"]
                self.events.append(answer)
        finally:
            watchdog.cancel()

    def open(self, path, seconds=60):
        """A page of its own, loaded: a file, or an address."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        page = Page(self, self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"])
        if str(path).startswith("http://"):
            page.home = str(path)
        page.load(page.home or pathlib.Path(path).resolve().as_uri(), seconds)
        return page


class Page:
    def __init__(self, browser, session):
        self.browser, self.session, self.home = browser, session, None
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        if browser.dark:
            self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])

    def call(self, method, **parameters):
        return self.browser.call(method, session=self.session, **parameters)

    def load(self, url, seconds):
        self.call("Page.navigate", url=url, seconds=seconds)
        self.run("new Promise(done => document.readyState === 'complete' ? done() : addEventListener('load', done))")

    def run(self, script):
        """The value of an expression in the page; promises are waited for."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def go(self, place):
        """The section that #place names, drawn."""
        self.run(f"location.hash = {json.dumps(place)}; new Promise(done => setTimeout(() => requestAnimationFrame(() => setTimeout(done, 30)), 30))")

    def key(self, key):
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **text)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def problems(self):
        """What the console says that is wrong, and requests that left the page."""
        self.run("0")
        found = []
        for event in self.browser.events:
            if event.get("sessionId") != self.session:
                continue
            method, parameters = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                found.append(parameters["exceptionDetails"])
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                found.append(parameters["args"])
            elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(parameters["entry"]["text"])
            elif method == "Page.javascriptDialogOpening":
                found.append(parameters)
            elif method == "Network.requestWillBeSent" and not parameters["request"]["url"].startswith(
                    (self.home, "data:") if self.home else "file:"):
                found.append(parameters["request"]["url"])
        return found
