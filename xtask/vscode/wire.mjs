// A proxy between a window and the host that logs every frame and finds refused requests and actions.

import { createWriteStream } from 'node:fs';
import { createServer } from 'node:http';
import { WebSocket, WebSocketServer } from 'ws';

export class Wire {
  /** Requests that the host answered with an error, and actions that it rejected. */
  refusals = [];
  /** Sessions that were deleted. */
  removed = [];
  /** Actions that the host sent, with the channel of each, in order. */
  actions = [];
  /** Requests of the window, in order. */
  requests = [];
  #connections = 0;
  #open = new Map();

  constructor(name, hostPort, logFile) {
    this.name = name;
    this.hostPort = hostPort;
    this.log = createWriteStream(logFile);
    this.server = createServer((_request, response) => response.writeHead(426).end());
    const upgrades = new WebSocketServer({ noServer: true, perMessageDeflate: false });
    this.server.on('upgrade', (request, socket, head) => {
      const client = ++this.#connections;
      const headers = {};
      for (const name of ['origin', 'authorization']) {
        if (request.headers[name]) headers[name] = request.headers[name];
      }
      const upstream = new WebSocket(`ws://127.0.0.1:${this.hostPort}${request.url}`, { headers, perMessageDeflate: false });
      const early = [];
      upstream.on('message', (data) => early.push(data));
      upstream.on('unexpected-response', (_request, response) => {
        this.#write({ client, refusedWith: response.statusCode });
        this.refusals.push({ method: 'connect', message: `HTTP ${response.statusCode}` });
        socket.end(`HTTP/1.1 ${response.statusCode} Refused\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`);
      });
      // The host is away while it restarts: the window sees a connection that fails, and tries again.
      upstream.on('error', () => socket.destroy());
      upstream.on('open', () =>
        upgrades.handleUpgrade(request, socket, head, (downstream) => {
          this.#write({ client, opened: request.headers['user-agent'] ?? '' });
          const forward = (data) => {
            this.#note(client, 'host', data);
            if (downstream.readyState === WebSocket.OPEN) downstream.send(data.toString());
          };
          upstream.removeAllListeners('message');
          early.forEach(forward);
          upstream.on('message', forward);
          downstream.on('message', (data) => {
            this.#note(client, 'window', data);
            if (upstream.readyState === WebSocket.OPEN) upstream.send(data.toString());
          });
          upstream.on('close', () => downstream.terminate());
          downstream.on('close', () => upstream.close());
        }),
      );
    });
  }

  async listen(port) {
    await new Promise((resolve) => this.server.listen(port, '127.0.0.1', resolve));
  }

  close() {
    this.server.close();
    this.server.closeAllConnections();
    this.log.end();
  }

  #write(entry) {
    this.log.write(`${JSON.stringify({ at: new Date().toISOString(), ...entry })}\n`);
  }

  #note(client, from, data) {
    const message = JSON.parse(data.toString());
    this.#write({ client, from, message });
    const key = `${client}/${message.id}`;
    if (from === 'window') {
      if (message.method && message.id !== undefined) {
        this.#open.set(key, message);
        this.requests.push(message);
      }
      return;
    }
    if (message.error) {
      const { method = 'request', params = {} } = this.#open.get(key) ?? {};
      this.refusals.push({ method, params, ...message.error });
    }
    if (message.method === 'root/sessionRemoved') this.removed.push(message.params.session);
    const { action, channel, rejectionReason } = message.params ?? {};
    if (rejectionReason) this.refusals.push({ action: action?.type, message: rejectionReason });
    else if (action) this.actions.push({ channel, ...action });
  }
}
