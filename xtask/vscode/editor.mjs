// The editor window of VS Code, served by the VS Code server, which connects to the host itself.

import { join } from 'node:path';
import { ChatWindow } from './chat.mjs';
import { waitForPort } from './processes.mjs';

/** Starts the server with the address and the token of a host: all that a user has to configure. No setting is changed. */
export async function startServer(processes, { installed, node, run, port, wirePort, token }) {
  const data = join(run, 'editor-data');
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
  await waitForPort(port, 240);
}

export class EditorWindow extends ChatWindow {
  /** The picker names its levels by the titles that the host gives them. */
  levels = { ask: 'Ask', allowAll: 'Allow everything' };
  /** A tool of this window with an input, and a part of its result. */
  clientTool = { call: 'usages {"symbol":"inn","filePath":"README.md","lineContent":"# Inn"}', result: 'Your client says: No reference provider' };
  /** The last answer in a session that is opened again: this window shows the first chat of it. */
  reopened = this.clientTool.result;

  showsOutput = true;
  /** This window shows the changes of each turn only. */
  hasChangesView = false;

  /** Opens the window without a folder. */
  async open(port) {
    await this.watch();
    await this.page.goto(`http://127.0.0.1:${port}/`, { waitUntil: 'domcontentloaded' });
    await this.waitForInput();
  }

  /** Opens a folder as a user does: with the dialog of VS Code, which loads the window again. */
  async openFolder(path) {
    await this.command('File: Open Folder...');
    const dialog = this.page.locator('.quick-input-widget');
    await dialog.getByText('Open Folder').waitFor();
    await this.typeFolder(path);
    await this.shoot('folder');
    await this.acceptFolder();
    await this.until('the folder to open', async () => new URL(this.page.url()).searchParams.get('folder') === path, 240);
    await this.waitForInput();
  }

  async reload() {
    await this.page.reload({ waitUntil: 'domcontentloaded' });
    await this.waitForInput();
  }

  /** Starts a new session with an agent. */
  async newSession(agent) {
    await this.page.locator('.part.auxiliarybar a.codicon-plus').first().click();
    await this.sleep(1500);
    await this.choose(this.page.locator('.chat-session-target-picker-item .action-label').last(), agent);
  }

  async pickPermission(level) {
    await this.pick(this.permission(), level);
  }

  /** VS Code's own permission picker. */
  permission() {
    return this.page.locator('.agent-host-chat-input-picker-host-autoApprove .action-label:visible').last();
  }

  /** Opens the diff of the edit that waits for approval. */
  async openDiff() {
    await this.approval().locator('.codicon-diff-multiple').click();
  }

  async closeDiff() {
    await this.command('View: Close All Editors');
  }

  diffLine(text) {
    return this.page.locator('.editor-group-container .view-line', { hasText: text }).first();
  }

  /** Opens the diff of the file that the last turn changed. */
  async openTurnChanges() {
    const changes = this.responses().last().locator('.checkpoint-file-changes-summary');
    await changes.locator('.chat-file-changes-label').click();
    await changes.locator('.monaco-list-row').first().click();
  }

  async showSessions() {
    await this.until('the list of sessions', async () => {
      if (await this.page.locator('.agent-session-item-row:visible').count()) return true;
      await this.command('Show Agent Sessions Sidebar');
      await this.sleep(3000);
      return false;
    }, 120);
  }

  session(title) {
    return this.page.locator('.agent-session-item-row', { hasText: title });
  }

  async openSession(title) {
    await this.showSessions();
    await this.session(title).first().click();
  }

  async renameSession(title, newTitle) {
    await this.showSessions();
    await this.menu(this.session(title).first(), 'Rename');
    await this.page.keyboard.press('Control+a');
    await this.page.keyboard.type(newTitle);
    await this.page.keyboard.press('Enter');
  }

  /** This version names it "Mark as Done" and lists the session below "Archived". */
  async archiveSession(title) {
    await this.showSessions();
    await this.menu(this.session(title).first(), 'Mark as Done');
  }

  async deleteSession(title) {
    await this.showSessions();
    await this.menu(this.session(title).first(), 'Delete');
    await this.shoot('delete');
    await this.confirmDialog('Are you sure you want to delete', 'Delete');
  }
}
