// A Redis client of node that a test drives: one JSON request per line on standard input, one JSON
// answer per line on standard output.
//
//     node client.js LIBRARY        redis (node-redis), redis-resp3 (asked for RESP3), or ioredis
//
//     {"do": "connect", "port": 6390, "password": "..."}      -> {"value": "OK"}
//     {"do": "command", "arguments": ["WEIR.TAKE", "alice", "10/s"]}
//     {"do": "pipeline", "commands": [[...], ...]}            -> {"value": [...]}
//     {"do": "transaction", "commands": [[...], ...]}         likewise, by MULTI and EXEC
//     {"do": "wait", "id": 7, "port": 6390, "arguments": [...]}
//         over a connection of its own, beside all others      -> {"id": 7, "value": [...]}, later
//
// An error is {"error": "what the library said"}. Beside the address and the password everything
// stays as the library has it by default; it reconnects by itself.
'use strict';
const readline = require('node:readline');

const openNodeRedis = (options) => async ({ port, password }) => {
  const { createClient } = require('redis');
  const client = createClient({ ...options, password, socket: { host: '127.0.0.1', port } });
  // It tells of an error and tries again, for ever: also with a wrong password.
  const told = new Promise((_, reject) => client.on('error', reject));
  try {
    await Promise.race([client.connect(), told]);
  } catch (error) {
    client.destroy();
    throw error;
  }
  return {
    command: (words) => client.sendCommand(words),
    pipeline: (commands) => Promise.all(commands.map((words) => client.sendCommand(words))),
    transaction: (commands) =>
      commands.reduce((multi, words) => multi.addCommand(words), client.multi()).exec(),
  };
};

const openIoredis = async ({ port, password }) => {
  const Redis = require('ioredis');
  const client = new Redis({ host: '127.0.0.1', port, password, lazyConnect: true });
  let told = null; // a failed AUTH is told here first
  client.on('error', (error) => { told ??= error; });
  try {
    await client.connect();
    await client.ping();
  } catch (error) {
    client.disconnect();
    throw told ?? error;
  }
  const calls = (commands) => commands.map(([name, ...rest]) => ['call', name, ...rest]);
  const values = (results) => results.map(([error, value]) => { if (error) throw error; return value; });
  return {
    command: ([name, ...rest]) => client.call(name, ...rest),
    pipeline: async (commands) => values(await client.pipeline(calls(commands)).exec()),
    transaction: async (commands) => values(await client.multi(calls(commands)).exec()),
  };
};

const LIBRARIES = {
  'redis': openNodeRedis({}),
  'redis-resp3': openNodeRedis({ RESP: 3 }),
  'ioredis': openIoredis,
};

const say = (answer) => process.stdout.write(JSON.stringify(answer) + '\n');

async function wait(open, request) {
  try {
    const client = await open(request);
    say({ id: request.id, value: await client.command(request.arguments) });
  } catch (error) {
    say({ id: request.id, error: String(error.message || error) });
  }
}

async function main() {
  const open = LIBRARIES[process.argv[2]];
  let client = null;
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    let answer;
    if (request.do === 'wait') {
      wait(open, request);
      continue;
    }
    try {
      if (request.do === 'connect') {
        client = await open(request);
        answer = { value: 'OK' };
      } else if (request.do === 'command') {
        answer = { value: await client.command(request.arguments) };
      } else if (request.do === 'transaction') {
        answer = { value: await client.transaction(request.commands) };
      } else {
        answer = { value: await client.pipeline(request.commands) };
      }
    } catch (error) {
      answer = { error: String(error.message || error) };
    }
    say(answer);
  }
  process.exit(0);
}

main();
