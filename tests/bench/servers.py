# SPDX-License-Identifier: MIT
"""The servers that are measured, each as one worker, and what is asked of them."""

import hashlib
import os
import pathlib

from machine import PEERS, PROGRAMS, WEIR, Missing, Program, Server, free_port, tool

HERE = pathlib.Path(__file__).parent
KEY = "########"  # bench_load puts digits there


def resp(*words):
    return "".join([f"*{len(words)}\r\n"] + [f"${len(w)}\r\n{w}\r\n" for w in words])


def http(path, method="GET", body=""):
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return head + "\r\n" + body


# Slow enough that every key stays live, roomy enough that every take is admitted: so each request
# writes, and no key expires under the measurement.
BURST, COUNT, PERIOD_S = 1000000, 1000, 86400
THROTTLE = resp("CL.THROTTLE", f"user:{KEY}", str(BURST), str(COUNT), str(PERIOD_S))
THROTTLECRAB = resp("THROTTLE", f"user:{KEY}", str(BURST), str(COUNT), str(PERIOD_S))
GCRA = (HERE / "peers" / "redis" / "gcra.lua").read_text()


def evalsha(key):
    return resp("EVALSHA", hashlib.sha1(GCRA.encode()).hexdigest(), "1", key,
                str(PERIOD_S * 1000000 // COUNT), str(BURST))


EVALSHA = evalsha(f"user:{KEY}")
PING = resp("PING")
GET = resp("GET", f"user:{KEY}")
WEIR_CHECK = http(f"/v1/check?key=user%3A{KEY}&limit=1000/d%20capacity=1000000")
WEIR_TAKE = http("/v1/take", "POST",
                 f'{{"key":"user:{KEY}","limit":"1000/d capacity=1000000"}}')
KEYED_PATH = http(f"/?key=user:{KEY}")
CRAB_BODY = (f'{{"key":"user:{KEY}","max_burst":{BURST},"count_per_period":{COUNT},'
             f'"period":{PERIOD_S},"quantity":1}}')
CRAB_POST = http("/throttle", "POST", CRAB_BODY)


def floor(folder, name, request, reply, unix=False):
    """Answers as many bytes as weir does, and looks at nothing."""
    address = folder / f"{name}.sock" if unix else free_port()
    path = folder / f"{name}.reply"
    path.write_bytes(reply)
    size = len(request)
    return Server([PROGRAMS / "bench_floor", address, size, path], address)


def weir(folder, unix=False, over_http=False, threads=1, memory="1G", program=WEIR):
    address = folder / f"weir-{'http' if over_http else 'resp'}.sock" if unix else free_port()
    listen = f"unix:{address}" if unix else f"127.0.0.1:{address}"
    wanted, other = ("--http", "--resp") if over_http else ("--resp", "--http")
    return Server([program, "serve", wanted, listen, other, "off", "--threads", threads, "--memory",
                   memory, "--quiet"], address)


def redis(folder):
    port = free_port()
    server = Server([tool("redis-server", "redis-server"), "--port", port, "--bind", "127.0.0.1",
                     "--save", "", "--appendonly", "no", "--dir", folder], port)
    with server.connect() as connection:
        connection.sendall(f"*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${len(GCRA.encode())}\r\n".encode()
                           + GCRA.encode() + b"\r\n")
        connection.recv(100)
    return server


def nginx(folder, body, zone="64m", name="nginx", burst="burst=1000000 nodelay", rate="1000r/m"):
    """`return` alone would bypass limit_req: so the limited location ends in a named one."""
    port = free_port()
    prefix = folder / name
    (prefix / "logs").mkdir(parents=True)
    user = "user root;" if os.geteuid() == 0 else ""
    (prefix / "nginx.conf").write_text(f"""
daemon off; {user} worker_processes 1; pid {prefix}/pid; error_log /dev/null crit;
events {{ worker_connections 2048; }}
http {{
    access_log off; keepalive_requests 1000000000; keepalive_timeout 3600;
    client_body_temp_path {prefix}/b; proxy_temp_path {prefix}/p; fastcgi_temp_path {prefix}/f;
    uwsgi_temp_path {prefix}/u; scgi_temp_path {prefix}/s;
    limit_req_zone $arg_key zone=keys:{zone} rate={rate};
    server {{
        listen 127.0.0.1:{port};
        location / {{ {body.format(burst=burst)} }}
        location @done {{ return 204; }}
    }}
}}
""")
    return Server([tool("nginx", "nginx-light"), "-p", prefix, "-c", prefix / "nginx.conf"], port)


def nginx_204(folder):
    return nginx(folder, "return 204;", name="nginx204")


def nginx_limited(folder):
    return nginx(folder, "limit_req zone=keys {burst}; try_files /nothing @done;",
                 name="nginxlimit")


def haproxy(folder):
    port = free_port()
    config = folder / "haproxy.cfg"
    config.write_text(f"""
global
    nbthread 1
    maxconn 4000
defaults
    mode http
    timeout client 1h
    timeout server 1h
    timeout connect 5s
    timeout http-keep-alive 1h
frontend bench
    bind 127.0.0.1:{port}
    stick-table type string len 32 size 200k expire 1h store http_req_rate(60s)
    http-request track-sc0 url_param(key)
    http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt 100000000 }}
    http-request return status 204
""")
    return Server([tool("haproxy", "haproxy"), "-db", "-f", config], port)


def throttlecrab(folder, over_http=False):
    del folder
    program = PEERS / "throttlecrab" / "bin" / "throttlecrab-server"
    if not program.exists():
        raise Missing("throttlecrab-server was not built (needs cargo and protobuf-compiler)")
    port = free_port()
    kind = "http" if over_http else "redis"
    return Server([program, f"--{kind}", f"--{kind}-host", "127.0.0.1", f"--{kind}-port", port,
                   "--log-level", "error"], port)


def reply_of(server, request):
    """One request's reply: all bytes that come within a moment."""
    with server.connect() as connection:
        connection.sendall(request.replace(KEY, "00000000").encode())
        connection.settimeout(2)
        return connection.recv(65536)


class Load:
    """bench_load against one server: CPU microseconds of the server per request."""

    def __init__(self, server, folder, request, connections=50, pipeline=1, keys=100000):
        path = folder / f"request-{id(self)}"
        path.write_text(request, newline="")
        self.server = server
        self.program = Program(PROGRAMS / "bench_load", server.address, path, connections, pipeline,
                               keys, cpu=1)

    def run(self, seconds):
        before = self.server.cpu_ns()
        figures = self.program.round(str(seconds))
        figures["us"] = (self.server.cpu_ns() - before) / 1000 / figures["replies"]
        return figures

    def sweep(self):
        return self.program.round("sweep")

    def close(self):
        self.program.close()
