"""Runs commands for rsh_agent, as sshd does for ssh: over the network of the hosts, in the environment that it was started with."""

import json
import os
import select
import socketserver
import subprocess

PORT = 514
FRAME = 65536


class Session(socketserver.StreamRequestHandler):
    """One line with the command. Answers are lines of JSON: pieces of its output, then its exit code."""

    def handle(self):
        command = json.loads(self.rfile.readline())
        shell = subprocess.Popen(["/bin/sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 cwd=os.environ.get("HOME", "/"))
        names = {shell.stdout.fileno(): "stdout", shell.stderr.fileno(): "stderr"}
        while names:
            for stream in select.select(list(names), [], [])[0]:
                piece = os.read(stream, FRAME)
                if piece:
                    self.answer({names[stream]: piece.decode(errors="replace")})
                else:
                    del names[stream]
        self.answer({"code": shell.wait()})

    def answer(self, value):
        try:
            self.wfile.write(json.dumps(value).encode() + b"\n")
        except OSError:
            pass  # who asked is gone; the command goes on


class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 64


if __name__ == "__main__":
    with Server(("0.0.0.0", PORT), Session) as server:
        print("listening", flush=True)
        server.serve_forever()
