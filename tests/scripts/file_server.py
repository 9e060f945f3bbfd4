"""An HTTP server on the loopback interface that serves one folder and can misbehave.

Prints its port. Behaviour per request is told by the path: /<mode>/<file>, where the mode is some of
these joined by "+":
  plain     nothing special
  norange   ignores Range headers
  cut       closes the connection half-way through a file's first transfer
  wrong     turns one byte round
Each request is a line "<mode> <file> <range or ->" in the file named by the second argument.
"""
import http.server
import pathlib
import sys

folder, log = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
cut_before, busy_before = set(), set()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        mode, _, name = self.path.lstrip("/").partition("/")
        asked = self.headers.get("Range")
        with log.open("a") as lines:
            lines.write(f"{mode} {name} {asked or '-'}\n")
        if not (folder / name).is_file():
            self.send_error(404)
            return
        if "busy" in mode and name in cut_before and name not in busy_before:
            busy_before.add(name)
            self.send_error(503)
            return
        data = bytearray((folder / name).read_bytes())
        if "wrong" in mode:
            data[len(data) // 2] ^= 0xFF
        start = 0
        if asked and "norange" not in mode:
            start = int(asked.removeprefix("bytes=").split("-")[0])
            if start >= len(data):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        else:
            self.send_response(200)
        body = data[start:]
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if "cut" in mode and name not in cut_before:
            cut_before.add(name)
            self.wfile.write(body[: len(body) // 2])
            self.close_connection = True
            return
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        pass  # clients that go away are part of the test


server = Server(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
