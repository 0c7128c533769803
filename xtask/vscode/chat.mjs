// A window of VS Code with a chat in it, driven as a user would: by typing, clicking and reading.

import { join } from 'node:path';

/** The input of an open chat, and the one that starts a session in the Agents window. */
const INPUT = '.chat-input-container .monaco-editor:visible, .sessions-chat-editor .monaco-editor:visible';
const RESPONSE = '.interactive-item-container.interactive-response';
const FORM = '.chat-question-carousel-container';
const TRUST = 'Do you trust the authors';

/** The part of a text that every editor shows alike. VS Code writes U+202E out, which would turn the text around. */
function printable(text) {
  return [...text.replaceAll('\u202e', '[U+202E]')].filter((c) => c > ' ' && c <= '~').join('');
}

/** Runs in the page: the text of an editor, whose lines are in no order. */
function shownText(editor) {
  const lines = [...editor.querySelectorAll('.view-line')];
  lines.sort((one, other) => Number.parseFloat(one.style.top) - Number.parseFloat(other.style.top));
  return lines.map((line) => line.textContent).join('');
}

/** Runs in the page: tells the script about error notifications and dialogs. */
function reportAppearances() {
  const seen = new WeakSet();
  const report = (element, kind) => {
    const text = element.innerText.replace(/\s+/g, ' ').trim();
    // A dialog or a notification is filled a moment after it is added.
    if (seen.has(element) || !text) return;
    seen.add(element);
    window.reportAppearance(kind, text);
  };
  const look = () => {
    for (const toast of document.querySelectorAll('.notifications-toasts .notification-list-item')) {
      if (toast.querySelector('.codicon-error')) report(toast, 'notification');
    }
    for (const box of document.querySelectorAll('.monaco-dialog-box')) report(box, 'dialog');
  };
  new MutationObserver(look).observe(document, { childList: true, subtree: true, characterData: true });
}

export class ChatWindow {
  /** Errors of the console and of the page, and error notifications that were on the screen, each with its step. */
  errors = [];
  /** The step that is played. */
  step = 'open the window';
  /** Dialogs that were on the screen and that no step answered. */
  dialogs = [];
  #shots = 0;

  constructor(name, page, directory, wire) {
    this.name = name;
    this.page = page;
    this.directory = directory;
    this.wire = wire;
    page.setDefaultTimeout(120_000);
    page.on('pageerror', (error) => this.#noteError(`page error: ${error.message}`));
    page.on('console', (message) => {
      // VS Code logs everything through the console: its own errors start with "ERR". The browser names the address
      // of a request that failed only as the location of its message.
      if (message.type() !== 'error') return;
      const text = message.text().replace(/%c|color: #\w+/g, '').trim();
      const address = text.startsWith('Failed to load resource') ? ` ${message.location().url}` : '';
      this.#noteError(`console error: ${text}${address}`);
    });
  }

  #noteError(text) {
    this.errors.push({ text, step: this.step });
  }

  sleep(milliseconds) {
    return this.page.waitForTimeout(milliseconds);
  }

  async shoot(title) {
    const number = String(++this.#shots).padStart(2, '0');
    await this.page.screenshot({ path: join(this.directory, `${this.name}-${number}-${title}.png`) });
  }

  /** Waits until a condition holds, or fails with what was expected. Elements may vanish while it looks at them. */
  async until(expected, condition, seconds = 120) {
    const end = Date.now() + seconds * 1000;
    for (;;) {
      let problem = '';
      try {
        if (await condition()) return;
      } catch (error) {
        problem = `: ${error.message.split('\n')[0]}`;
      }
      if (Date.now() > end) throw new Error(`expected ${expected} within ${seconds} s${problem}`);
      await this.sleep(150);
    }
  }

  /** Types a message and sends it. */
  async send(text) {
    const input = this.page.locator(INPUT).last();
    const isTyped = async () => printable(await input.evaluate(shownText, undefined, { timeout: 2000 })) === printable(text);
    await this.until(`"${text}" in the input`, async () => {
      await this.clearNotifications();
      await input.click({ timeout: 30_000 });
      await this.page.keyboard.press('Control+a');
      await this.page.keyboard.type(text, { delay: 10 });
      await this.sleep(700);
      // A dialog that appeared meanwhile took a part of the text.
      return isTyped();
    });
    await this.until('the message to be sent', async () => {
      // The list of completions would take the Enter.
      if (await this.page.locator('.suggest-widget.visible').count()) await this.page.keyboard.press('Escape');
      await this.page.keyboard.press('Enter');
      await this.sleep(1000);
      // A chat that just started replaces the input that the message was typed into.
      return !(await input.isVisible()) || !(await isTyped());
    });
  }

  async waitForInput() {
    await this.page.locator(INPUT).last().waitFor({ timeout: 240_000 });
    await this.sleep(3000);
  }

  responses() {
    return this.page.locator(RESPONSE);
  }

  async lastResponse() {
    return (await this.responses().last().innerText({ timeout: 2000 })).replace(/\s+/g, ' ');
  }

  async isBusy() {
    return (await this.page.locator('.chat-input-container .codicon-stop-circle:visible').count()) > 0;
  }

  /** Waits until the newest answer contains a text and the turn is over. */
  async expectResponse(text, seconds = 120) {
    await this.until(`the answer "${text}"`, async () => (await this.lastResponse()).includes(text), seconds);
    await this.until('the turn to end', async () => !(await this.isBusy()), seconds);
  }

  async say(text, answer, seconds) {
    await this.send(text);
    await this.expectResponse(answer, seconds);
  }

  /** The approval that is shown. A copy of it without a size lies in the list of answers. */
  approval() {
    return this.page.locator('.chat-confirmation-widget-container:visible').last();
  }

  /** Waits until the approval that is shown has a text in it. */
  async expectApproval(text) {
    await this.until(`the approval with ${text}`, async () => (await this.approval().innerText({ timeout: 2000 })).includes(text));
  }

  /** A button of the approval that is shown, by the beginning of its text. */
  approvalButton(label) {
    return this.approval().locator('.monaco-button', { hasText: new RegExp(`^${label}`) });
  }

  async approve(label) {
    await this.approvalButton(label).click();
  }

  /** The command in the approval that is shown, or nothing. */
  async shownCommand() {
    const shown = this.page.locator('.chat-confirmation-message-terminal:visible');
    return (await shown.count()) ? shown.last().evaluate(shownText, undefined, { timeout: 2000 }) : '';
  }

  /** Waits for the approval of exactly this command, and answers it. */
  async decideCommand(command, button) {
    await this.until(`the approval of ${JSON.stringify(command)}`, async () => printable(await this.shownCommand()) === printable(command));
    await this.approve(button);
  }

  /** Stops the turn that runs. */
  async stop() {
    await this.page.locator('.chat-input-container .codicon-stop-circle:visible').last().click();
    await this.until('the turn to end', async () => !(await this.isBusy()));
  }

  /** The questions that are shown. */
  form() {
    return this.page.locator(FORM).last();
  }

  /** Answers the only question that is shown; VS Code sends the answer with the click. */
  async answer(option) {
    await this.form().locator('.chat-question-list-item', { hasText: option }).first().click();
    await this.until('the question to be answered', async () => !(await this.form().isVisible()));
  }

  /** Answers the questions that are shown, by a part of their titles, and submits them. */
  async answerForm(answers) {
    const form = this.form();
    await form.waitFor();
    const count = Number((await form.locator('.chat-question-step-indicator').innerText()).split('/')[1]);
    for (let index = 1; index <= count; index++) {
      const at = async () => (await form.locator('.chat-question-step-indicator').innerText()).startsWith(`${index}/`);
      await this.until(`question ${index} of ${count}`, at);
      const title = await form.locator('.chat-question-title').innerText();
      const known = Object.entries(answers).find(([part]) => title.includes(part));
      if (!known) throw new Error(`the form asks "${title}", which nobody expected`);
      const option = form.locator('.chat-question-list-item', { hasText: known[1] });
      if (await form.locator('.chat-question-list-item').count()) {
        await option.first().click();
        // A click on the only choice of a question leads on to the next question.
        await this.sleep(500);
      } else {
        await form.locator('.monaco-inputbox input').fill(known[1]);
      }
      if (index < count && (await at())) await form.locator('.chat-question-nav-next').click();
    }
    await this.shoot('form');
    await form.locator('.chat-question-submit-button').click();
  }

  /** Reports every error notification and every dialog at the moment it appears, so that none is missed. */
  async watch() {
    await this.page.exposeBinding('reportAppearance', (_source, kind, text) => this.#appeared(kind, text));
    await this.page.addInitScript(reportAppearances);
  }

  async #appeared(kind, text) {
    if (kind !== 'dialog') this.#noteError(`notification: ${text}`);
    else if (text.includes(TRUST)) await this.#trustFolder();
    else this.dialogs.push(text);
  }

  /**
   * Answers VS Code's question whether the user trusts a folder, as every user has to. It comes with a new folder, with
   * the first message there, or before either, and covers everything else. The host takes no part in it.
   */
  async #trustFolder() {
    try {
      const dialog = this.page.locator('.monaco-dialog-box', { hasText: TRUST });
      await this.shoot('trust-folder');
      await dialog.locator('.monaco-button', { hasText: 'Trust Folder & Continue' }).click();
    } catch (error) {
      this.dialogs.push(`${TRUST}: ${error.message.split('\n')[0]}`);
    }
  }

  /** Takes the notifications off the screen, because they cover buttons. */
  async clearNotifications() {
    await this.page.evaluate(() => {
      for (const button of document.querySelectorAll('.notifications-toasts .codicon-notifications-clear')) button.click();
    });
  }

  /** Answers a dialog that the step expects. */
  async confirmDialog(text, button) {
    await this.page.locator('.monaco-dialog-box', { hasText: text }).waitFor();
    await this.until('the dialog to be reported', async () => this.dialogs.some((dialog) => dialog.includes(text)));
    this.dialogs = this.dialogs.filter((dialog) => !dialog.includes(text));
    await this.page.locator('.monaco-dialog-box .monaco-button', { hasText: button }).click();
    await this.page.locator('.monaco-dialog-box').waitFor({ state: 'detached' });
  }

  /** Runs a command of the command palette, once the palette shows it. */
  async command(name) {
    await this.page.keyboard.press('F1');
    await this.page.locator('.quick-input-widget input:visible').first().waitFor();
    await this.page.keyboard.type(name, { delay: 5 });
    const row = this.page.locator('.quick-input-list .monaco-list-row', { hasText: name }).first();
    try {
      await row.click({ timeout: 30_000 });
    } catch (error) {
      await this.page.keyboard.press('Escape');
      throw error;
    }
    await this.sleep(800);
  }

  /** Opens the panel with a terminal of the host; VS Code itself may have others. */
  async openTerminal() {
    await this.command('Create New Terminal (With Profile)');
    await this.page.locator('.quick-input-list .monaco-list-row', { hasText: 'Agent Host' }).click();
  }

  /** Closes the panel, which stays open if it has another terminal. */
  async closePanel() {
    await this.until('the panel to close', async () => {
      if (!(await this.page.locator('.part.panel:visible').count())) return true;
      await this.page.keyboard.press('Control+j');
      await this.sleep(1000);
      return false;
    });
  }

  /** Puts the focus into the terminal of the panel. A new one does not always get it. */
  async focusTerminal() {
    await this.until('the focus in the terminal', async () => {
      if (await this.page.evaluate(() => document.activeElement.classList.contains('xterm-helper-textarea'))) return true;
      await this.command('Terminal: Focus Terminal');
      return false;
    });
  }

  /** Picks an entry of the drop-down that an element opens and that shows the choice. */
  async choose(opener, entry) {
    await this.until(`"${entry}" to be chosen`, async () => {
      await this.pick(opener, entry);
      await this.sleep(1000);
      // VS Code drops a choice that is made before it is connected to the host.
      return (await opener.innerText({ timeout: 5000 })).includes(entry);
    }, 240);
  }

  /** Picks an entry of the drop-down that an element opens. The entries of a host appear when it is connected. */
  async pick(opener, entry, seconds = 240) {
    const rows = this.page.locator('.action-widget .monaco-list-row');
    const row = rows.filter({ hasText: entry }).first();
    await this.until(`"${entry}" in the list`, async () => {
      // The hover of the button that was clicked last may cover the opener.
      await this.page.mouse.move(700, 300);
      if (!(await rows.first().isVisible())) await opener.click({ timeout: 30_000 });
      await rows.first().waitFor({ timeout: 30_000 });
      await this.sleep(400);
      const box = (await row.count()) ? await row.boundingBox() : undefined;
      // The list lies below a layer that catches the clicks of Playwright.
      if (box) await this.page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
      else await this.page.keyboard.press('Escape');
      return box;
    }, seconds);
    await this.sleep(800);
  }

  /** Types the path of a folder into the dialog, which may still fill in the path of its own. */
  async typeFolder(path) {
    await this.until(`${path} in the dialog`, async () => {
      await this.page.keyboard.press('Control+a');
      await this.page.keyboard.type(`${path}/`, { delay: 5 });
      await this.sleep(1500);
      return (await this.page.locator('.quick-input-widget input:visible').first().inputValue()) === `${path}/`;
    });
  }

  /** Accepts the folder of the dialog. A click before the dialog has read the folder only shows what is in it. */
  async acceptFolder() {
    const button = this.page.locator('.quick-input-widget .monaco-button', { hasText: 'OK' });
    await this.until('the dialog to take the folder', async () => {
      if (await button.isVisible()) await button.click({ timeout: 10_000 });
      await this.sleep(2000);
      return !(await button.isVisible());
    }, 240);
  }

  /** Picks an entry of the context menu of an element. */
  async menu(element, entry) {
    await element.click({ button: 'right' });
    const item = this.page.locator('.monaco-menu .action-item', { hasText: entry }).first();
    await item.waitFor();
    await this.sleep(300);
    await item.click();
    await this.sleep(800);
  }
}
