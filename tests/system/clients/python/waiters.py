"""Clients of Python's asyncio that a test drives: one JSON request per line on standard input.

    {"do": "wait", "id": 7, "port": 6390, "arguments": ["WEIR.TAKE", "a", "1/s", "WAIT", "5000"]}

Each has a connection of its own, and is answered when its turn has come: {"id": 7, "value": [...]}
or {"id": 7, "error": "..."}, a line of standard output. redis-py is as it is by default, but for its
timeout: after 5 s it would leave its place, and ask again behind all others."""

import asyncio
import json
import sys

import redis.asyncio


async def wait(request):
    client = redis.asyncio.Redis(port=request["port"], decode_responses=True, socket_timeout=None)
    try:
        answer = {"value": await client.execute_command(*request["arguments"])}
    except redis.RedisError as error:
        answer = {"error": str(error)}
    print(json.dumps({"id": request["id"], **answer}), flush=True)
    await client.aclose()


async def main():
    lines = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(lines)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    waits = set()
    while line := await lines.readline():
        waits.add(asyncio.create_task(wait(json.loads(line))))
    for task in waits:
        task.cancel()


asyncio.run(main())
