// A model server that follows a script: the last word of a user's message names the tool that it calls.

import { createServer } from 'node:http';
import { join } from 'node:path';

/** The call for each word of the script, and what the model says after the result. */
function script(directory) {
  return {
    edit: { tool: 'write_file', input: { path: join(directory, 'guests.txt'), content: 'Ada\nGrace\n' }, say: 'The guest list is written.' },
    read: { tool: 'read_file', input: { path: join(directory, 'README.md') }, say: 'The file is read.' },
    command: { tool: 'run_command', input: { command: 'echo from-the-shell' }, say: 'The command ran.' },
  };
}

export async function startModel(port, directory) {
  const steps = script(directory);
  const server = createServer((request, response) => {
    if (request.method === 'GET') {
      response.setHeader('Content-Type', 'application/json');
      return response.end(JSON.stringify({ object: 'list', data: [{ id: 'scripted', object: 'model' }] }));
    }
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      const { messages } = JSON.parse(Buffer.concat(chunks).toString());
      const last = messages.at(-1);
      const asked = messages.findLast((message) => message.role === 'user');
      const text = typeof asked?.content === 'string' ? asked.content : (asked?.content ?? []).map((part) => part.text ?? '').join(' ');
      const step = Object.entries(steps).find(([word]) => new RegExp(`\\b${word}\\b`).test(text))?.[1];
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      const send = (delta, finish = null) =>
        response.write(`data: ${JSON.stringify({ id: 'r', object: 'chat.completion.chunk', model: 'scripted', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`);
      if (step && last.role === 'user') {
        send({ tool_calls: [{ index: 0, id: `call_${Date.now()}`, type: 'function', function: { name: step.tool, arguments: JSON.stringify(step.input) } }] });
        send({}, 'tool_calls');
      } else {
        send({ content: last.role === 'tool' && step ? step.say : 'I follow a script.' });
        send({}, 'stop');
      }
      response.end('data: [DONE]\n\n');
    });
  });
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  return server;
}
