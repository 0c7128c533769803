// A model server that follows a script: a word in the user's message names the tools that it calls, one after the other.

import { createServer } from 'node:http';
import { join } from 'node:path';

/** The calls for each word of the script, and what the model says after the last result. */
function script(directory, corpus) {
  const command = (line) => ['run_command', { command: line }];
  return {
    edit: { calls: [['write_file', { path: join(directory, 'guests.txt'), content: 'Ada\nGrace\n' }]], say: 'The guest list is written.' },
    read: { calls: [['read_file', { path: join(directory, 'README.md') }]], say: 'The file is read.' },
    command: { calls: [command('echo from-the-shell')], say: 'The command ran.' },
    tests: { calls: [command('cargo test -p core')], say: 'The tests passed.' },
    attempts: { calls: corpus.attempts.map(([_trick, line]) => command(line)), say: 'That was the last attempt.' },
    removal: { calls: [command('rm guests.txt; echo removed')], say: 'The guest list is gone.' },
    bell: { calls: [['bell__ring', { times: 3 }]], say: 'The bell has been rung.' },
  };
}

function textOf(message) {
  const content = message?.content ?? '';
  return typeof content === 'string' ? content : content.map((part) => part.text ?? '').join(' ');
}

/** The next part of the answer to a conversation: a call of a tool, or text. */
function answer(steps, messages) {
  const asked = messages.findLastIndex((message) => message.role === 'user');
  const step = Object.entries(steps).find(([word]) => new RegExp(`\\b${word}\\b`).test(textOf(messages[asked])))?.[1];
  if (!step) return { content: 'I follow a script.' };
  const results = messages.slice(asked + 1).filter((message) => message.role === 'tool').length;
  if (results >= step.calls.length) return { content: step.say };
  const [name, input] = step.calls[results];
  const id = `call_${asked}_${results}`;
  return { tool_calls: [{ index: 0, id, type: 'function', function: { name, arguments: JSON.stringify(input) } }] };
}

export async function startModel(port, directory, corpus) {
  const steps = script(directory, corpus);
  const server = createServer((request, response) => {
    if (request.method === 'GET') {
      response.setHeader('Content-Type', 'application/json');
      return response.end(JSON.stringify({ object: 'list', data: [{ id: 'scripted', object: 'model' }] }));
    }
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      const { messages } = JSON.parse(Buffer.concat(chunks).toString());
      const delta = answer(steps, messages);
      const send = (part, finish = null) =>
        response.write(`data: ${JSON.stringify({ id: 'r', object: 'chat.completion.chunk', model: 'scripted', choices: [{ index: 0, delta: part, finish_reason: finish }] })}\n\n`);
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      send(delta);
      send({}, delta.tool_calls ? 'tool_calls' : 'stop');
      response.end('data: [DONE]\n\n');
    });
  });
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  return server;
}
