// Starts the programs of a run, keeps their output in files, and ends them.

import { spawn } from 'node:child_process';
import { createWriteStream } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

export class Processes {
  #running = new Map();

  constructor(logs) {
    this.logs = logs;
  }

  start(name, command, args, options = {}) {
    const log = createWriteStream(join(this.logs, `${name}.log`), { flags: 'a' });
    // A process group of its own, so that the program ends together with its children.
    const child = spawn(command, args, { ...options, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.pipe(log);
    child.stderr.pipe(log);
    const exited = new Promise((resolve) => {
      child.on('exit', resolve);
      child.on('error', (error) => {
        log.write(`cannot start: ${error.message}\n`);
        resolve(error);
      });
    });
    this.#running.set(name, { child, exited });
  }

  async stop(name, signal = 'SIGTERM') {
    const entry = this.#running.get(name);
    if (!entry) return;
    this.#running.delete(name);
    const signalGroup = (wanted) => {
      try {
        process.kill(-entry.child.pid, wanted);
      } catch {
        // The group is gone already.
      }
    };
    signalGroup(signal);
    const ended = await Promise.race([entry.exited.then(() => true), sleep(10_000, false)]);
    if (!ended) signalGroup('SIGKILL');
    await entry.exited;
  }

  async stopAll() {
    await Promise.all([...this.#running.keys()].map((name) => this.stop(name)));
  }
}

export async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export async function waitForPort(port, seconds) {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const open = await new Promise((resolve) => {
      const socket = connect(port, '127.0.0.1');
      socket.on('connect', () => resolve(true));
      socket.on('error', () => resolve(false));
      socket.on('connect', () => socket.destroy());
    });
    if (open) return;
    if (Date.now() > end) throw new Error(`nothing listens on port ${port} after ${seconds} s`);
    await sleep(100);
  }
}
