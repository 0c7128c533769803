// The editor window of VS Code, served by the VS Code server, which connects to the host itself.

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ChatWindow } from './chat.mjs';
import { waitForPort } from './processes.mjs';

const SETTINGS = {
  'chat.disableAIFeatures': false,
  'security.workspace.trust.enabled': false,
  'remote.autoForwardPorts': false,
  'workbench.startupEditor': 'none',
};

export async function startServer(processes, { installed, node, run, port, wirePort, token }) {
  const data = join(run, 'editor-data');
  mkdirSync(join(data, 'data/User'), { recursive: true });
  writeFileSync(join(data, 'data/User/settings.json'), JSON.stringify(SETTINGS));
  processes.start(
    'vscode-server',
    node,
    [
      join(installed, 'code-server/lib/vscode/out/server-main.js'),
      ...['--host', '127.0.0.1', '--port', String(port), '--without-connection-token', '--accept-server-license-terms'],
      ...['--server-data-dir', data, '--telemetry-level', 'off'],
      ...['--agent-host-bridge-host', '127.0.0.1', '--agent-host-bridge-port', String(wirePort)],
      ...['--agent-host-bridge-connection-token', token],
    ],
    { env: { ...process.env, HOME: join(run, 'home') } },
  );
  await waitForPort(port, 60);
}

export class EditorWindow extends ChatWindow {
  async open(port, folder) {
    this.url = `http://127.0.0.1:${port}/?folder=${folder}`;
    await this.page.goto(this.url, { waitUntil: 'domcontentloaded' });
    await this.waitForInput();
  }

  /** Starts a new session with an agent. */
  async newSession(agent) {
    await this.page.locator('.part.auxiliarybar a.codicon-plus').first().click();
    await this.sleep(1500);
    // The agents appear in the list as soon as the window is connected to the host.
    await this.until(`the agent "${agent}"`, () => this.pick(this.page.locator('.chat-session-target-picker-item .action-label').last(), agent), 90);
  }

  async showSessions() {
    await this.command('Show Agent Sessions Sidebar');
    await this.session('').first().waitFor();
  }

  session(title) {
    return this.page.locator('.agent-session-item-row', { hasText: title });
  }
}
