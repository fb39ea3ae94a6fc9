"""A server of bytes, for what no decent server does; and a certificate of its own."""

import contextlib
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

BEGUN = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class RawServer:
    """Reads a request, does what it is told with the connection, and again until one side closes it."""

    def __init__(self, act, tls=None):
        self.act = act
        self.tls = tls
        self.connections = 0
        self.requests = 0
        self.received = []
        """Each request, byte for byte."""
        self.closing = threading.Event()
        self._open = []
        self._threads = []

    def __enter__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.05)
        self._start(self._accept)
        return self

    def __exit__(self, *_):
        self.closing.set()
        with contextlib.suppress(OSError):  # where this does not wake who accepts, it looks up soon
            self._listener.shutdown(socket.SHUT_RDWR)
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
        for connection in self._open:
            connection.close()
        self._listener.close()

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def _start(self, act, *args):
        thread = threading.Thread(target=act, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        while not self.closing.is_set():
            with contextlib.suppress(OSError):
                connection, _ = self._listener.accept()
                self._open.append(connection)
                self.connections += 1
                self._start(self._serve, connection)

    def _serve(self, connection):
        with contextlib.suppress(OSError):
            connection.settimeout(20)
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
                self._open.append(connection)
            while (received := _read_request(connection)) is not None:
                self.requests += 1
                self.received.append(received)
                self.act(self, connection)


def _read_request(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    length = next((int(line[15:]) for line in lines if line.lower().startswith(b"content-length:")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


def chunk(data):
    """Bytes as a chunk of a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def certificate(folder):
    """Contexts of a server and of a client that trusts it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file = folder / "both.pem"
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, ssl.create_default_context(cafile=file)
