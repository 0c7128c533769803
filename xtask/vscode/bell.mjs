// An MCP server with one tool, as a workspace may declare it: `node bell.mjs FILE`. It notes its start and its calls.

import { appendFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

const note = (event) => appendFileSync(process.argv[2], `${event}\n`);
const TOOL = {
  name: 'ring',
  description: 'Rings the bell of the inn.',
  inputSchema: { type: 'object', properties: { times: { type: 'integer' } }, required: ['times'] },
};

const METHODS = {
  initialize: ({ protocolVersion }) => ({ protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'bell', version: '1.0.0' } }),
  ping: () => ({}),
  'tools/list': () => ({ tools: [TOOL] }),
  'tools/call': ({ arguments: { times } }) => {
    note(`rang ${times} times`);
    return { content: [{ type: 'text', text: `The bell rang ${times} times.` }] };
  },
};

note('started');
for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  const handle = METHODS[method];
  const answer = handle ? { result: handle(params) } : { error: { code: -32601, message: `there is no method ${method}` } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...answer })}\n`);
}
