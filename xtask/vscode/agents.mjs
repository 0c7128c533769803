// The Agents window of VS Code, served as static files; the page connects to the host itself.

import { createReadStream, existsSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { basename, extname, join } from 'node:path';
import { ChatWindow } from './chat.mjs';

const TYPES = {
  '.css': 'text/css',
  '.html': 'text/html',
  '.js': 'application/javascript',
  '.json': 'application/json',
  '.mjs': 'application/javascript',
  '.svg': 'image/svg+xml',
  '.ttf': 'font/ttf',
  '.wasm': 'application/wasm',
};

function page(port) {
  const origin = `http://127.0.0.1:${port}`;
  return `<!DOCTYPE html>
<html>
<head>
<meta charset="utf-8">
<title>Agents</title>
<link rel="stylesheet" href="/out/vs/sessions/sessions.web.main.internal.css">
<script>globalThis._VSCODE_FILE_ROOT = '${origin}/out/';</script>
</head>
<body aria-label="">
<script type="module">
await import('/out/nls.messages.js');
const { create } = await import('/out/vs/sessions/sessions.web.main.internal.js');
create(document.body, {
  enableWorkspaceTrust: true,
  productConfiguration: { nameShort: 'Agents', nameLong: 'Agents', enableTelemetry: false, webEndpointUrlTemplate: '${origin}', quality: 'stable' },
  workspaceProvider: { workspace: undefined, open: async () => false, payload: [['isSessionsWindow', 'true']] },
});
</script>
</body>
</html>`;
}

/** Serves the files of the Agents window. */
export async function serve(port, files) {
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url, 'http://localhost').pathname);
    if (path === '/') return response.writeHead(200, { 'Content-Type': 'text/html' }).end(page(port));
    const file = join(files, path);
    if (!file.startsWith(files) || !existsSync(file) || !statSync(file).isFile()) return response.writeHead(404).end();
    response.writeHead(200, { 'Content-Type': TYPES[extname(file)] ?? 'application/octet-stream', 'Cache-Control': 'max-age=3600' });
    createReadStream(file).pipe(response);
  });
  await new Promise((resolve) => server.listen(port, '127.0.0.1', resolve));
  return server;
}

/** Writes the settings file into the database of the page, where the web build of VS Code keeps it. */
function saveSettings(settings) {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open('vscode-web-db', 3);
    request.onupgradeneeded = () => {
      for (const store of ['vscode-userdata-store', 'vscode-logs-store', 'vscode-filehandles-store']) {
        if (!request.result.objectStoreNames.contains(store)) request.result.createObjectStore(store);
      }
    };
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      const database = request.result;
      const transaction = database.transaction('vscode-userdata-store', 'readwrite');
      transaction.objectStore('vscode-userdata-store').put(new TextEncoder().encode(settings), '/User/settings.json');
      transaction.oncomplete = () => resolve(database.close());
      transaction.onerror = () => reject(transaction.error);
    };
  });
}

export class AgentsWindow extends ChatWindow {
  /** The picker has its own names for the levels. */
  levels = { ask: 'Default permissions', allowAll: 'Allow all' };
  /** A tool of this window. */
  clientTool = { call: 'listAutomations', result: 'Your client says: { "catalogueState"' };
  /** The last answer in a session that is opened again: this window shows the chat that it showed last, the fork. */
  reopened = 'You wrote 4 words';

  /** The web build has no terminals of its own, and without them it shows no output of commands in the chat. */
  showsOutput = false;
  hasChangesView = true;

  /** Opens the window with the address and the token of a host: all that a user has to configure. */
  async open(port, wirePort, token) {
    const host = { name: 'Innkeeper', address: `127.0.0.1:${wirePort}`, connectionToken: token };
    const settings = { 'chat.remoteAgentHosts': [host] };
    await this.watch();
    await this.page.goto(`http://127.0.0.1:${port}/manifest.json`);
    await this.page.evaluate(saveSettings, JSON.stringify(settings));
    this.url = `http://127.0.0.1:${port}/?skip-sessions-welcome`;
    await this.reload();
  }

  async reload() {
    await this.page.goto(this.url, { waitUntil: 'domcontentloaded' });
    await this.waitForInput();
  }

  async openFolderPicker() {
    await this.pick(this.page.locator('[data-onboarding-id="sessions.newSession.workspacePicker"]'), 'Folders');
    await this.page.locator('.quick-input-widget').getByText('Select Folder').waitFor();
  }

  /** Picks a folder by clicking through its parents, from the directory that the host proposes. */
  async pickFolderByClicking(names) {
    await this.openFolderPicker();
    for (const name of names) {
      await this.page.locator('.quick-input-list .monaco-list-row', { hasText: new RegExp(`^${name}$`) }).first().click();
      await this.sleep(1200);
    }
    await this.shoot('folder-by-clicking');
    await this.acceptFolder();
  }

  /** Starts a session in a folder whose path is typed. */
  async openFolder(path) {
    await this.newPage();
    await this.openFolderPicker();
    await this.typeFolder(path);
    await this.shoot('folder-by-typing');
    await this.acceptFolder();
  }

  async pickAgent(agent) {
    await this.choose(this.page.locator('[data-onboarding-id="sessions.newSession.harnessPicker"]'), agent);
  }

  /** Shows the page that starts a session. */
  async newPage() {
    await this.clearNotifications();
    await this.page.locator('[data-onboarding-id="sessions.newSession.button"]').click();
    await this.sleep(1500);
  }

  /** Starts a new session with an agent, in the folder of the last one. */
  async newSession(agent) {
    await this.newPage();
    await this.pickAgent(agent);
  }

  async pickPermission(level) {
    await this.pick(this.permission(), level);
  }

  /** VS Code's own permission picker. */
  permission() {
    return this.page.locator('.monaco-dropdown .action-label:visible', { hasText: /permissions|Allow all/ }).last();
  }

  /** Opens the diff of the edit that waits for approval. The button for all changes shows changesets instead. */
  async openDiff() {
    await this.approval().getByText('1 file created').click();
    await this.approval().locator('.monaco-list-row').first().click();
  }

  /** The diff is a tab beside the chat, which stays. */
  async closeDiff() {}

  diffLine(text) {
    return this.page.locator('.monaco-diff-editor .view-line:visible', { hasText: text }).first();
  }

  /** Opens the changes of the last turn in the view of changes. */
  async openTurnChanges() {
    await this.openChanges();
    await this.pickChanges('Last Turn Changes');
  }

  /** Opens the view of all changes, with the button above the input. */
  async openChanges() {
    await this.page.locator('.chat-input-container, .interactive-input-part').getByText(/^\d+ Files?$/).last().click();
    await this.page.locator('.changes-file-list').waitFor();
  }

  async pickChanges(view) {
    await this.choose(this.page.locator('.changes-picker-action-rich .action-label'), view);
  }

  changedFile(path) {
    return this.page.locator('.changes-file-list .monaco-list-row', { hasText: basename(path) });
  }

  async markAsViewed() {
    await this.page.getByText('Viewed').first().click();
  }

  async discard(path) {
    await this.changedFile(path).hover();
    await this.changedFile(path).locator('.codicon-discard').click();
  }

  /** Invokes an operation on all changes: the first one with its button, and the others from the menu beside it. */
  async invokeOperation(label) {
    const invoked = () => this.wire.requests.filter(({ method }) => method === 'invokeChangesetOperation').length;
    const before = invoked();
    const bar = this.page.locator('.changes-actions-bar');
    const first = bar.locator('.monaco-text-button', { hasText: label });
    const item = this.page.locator('.monaco-menu .action-item', { hasText: label }).first();
    await bar.locator('.monaco-text-button').waitFor();
    await this.until(`"${label}" to be invoked`, async () => {
      if (await first.count()) {
        await first.click({ timeout: 10_000 });
      } else {
        if (!(await item.isVisible())) await bar.locator('.monaco-dropdown-button').click({ timeout: 10_000 });
        await item.waitFor({ timeout: 10_000 });
        // A menu takes no clicks while it opens.
        await this.sleep(500);
        await item.click({ timeout: 10_000 });
      }
      const end = Date.now() + 10_000;
      while (invoked() === before && Date.now() < end) await this.sleep(150);
      return invoked() > before;
    });
  }

  /** The list of sessions is always there. */
  async showSessions() {}

  session(title) {
    return this.page.locator('.monaco-list-row:has(.session-item)', { hasText: title });
  }

  async openSession(title) {
    await this.session(title).first().click();
  }

  async renameSession(title, newTitle) {
    await this.menu(this.session(title).first(), 'Rename');
    await this.page.keyboard.press('Control+a');
    await this.page.keyboard.type(newTitle);
    await this.page.keyboard.press('Enter');
  }

  async archiveSession(title) {
    await this.menu(this.session(title).first(), 'Archive');
  }

  async deleteSession(title) {
    await this.menu(this.session(title).first(), 'Delete');
    await this.shoot('delete');
    await this.confirmDialog('Are you sure you want to delete', 'Delete');
  }
}
