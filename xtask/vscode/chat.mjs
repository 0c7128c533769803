// A window of VS Code with a chat in it, driven as a user would: by typing, clicking and reading.

import { join } from 'node:path';

/** The input of an open chat, and the one that starts a session in the Agents window. */
const INPUT = '.chat-input-container .monaco-editor:visible, .sessions-chat-editor .monaco-editor:visible';
const RESPONSE = '.interactive-item-container.interactive-response';
const FORM = '.chat-question-carousel-container';

/** The part of a text that every editor shows alike. VS Code writes U+202E out, which would turn the text around. */
function printable(text) {
  return [...text.replaceAll('\u202e', '[U+202E]')].filter((c) => c > ' ' && c <= '~').join('');
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
  /** Errors of the console and of the page, and error notifications that were on the screen. */
  errors = [];
  /** Dialogs that were on the screen and that no step answered. */
  dialogs = [];
  /** True from the choice of a folder that VS Code has not shown before until the first message there. */
  isNewFolder = false;
  #shots = 0;

  constructor(name, page, directory, wire) {
    this.name = name;
    this.page = page;
    this.directory = directory;
    this.wire = wire;
    page.setDefaultTimeout(120_000);
    page.on('pageerror', (error) => this.errors.push(`page error: ${error.message}`));
    page.on('console', (message) => {
      // VS Code logs everything through the console: its own errors start with "ERR". The browser names the address
      // of a request that failed only as the location of its message.
      if (message.type() !== 'error') return;
      const text = message.text().replace(/%c|color: #\w+/g, '').trim();
      const address = text.startsWith('Failed to load resource') ? ` ${message.location().url}` : '';
      this.errors.push(`console error: ${text}${address}`);
    });
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
    await this.clearNotifications();
    await this.page.locator(INPUT).last().click();
    await this.page.keyboard.press('Control+a');
    await this.page.keyboard.type(text, { delay: 10 });
    await this.sleep(700);
    // The list of completions would take the Enter.
    if (await this.page.locator('.suggest-widget.visible').count()) await this.page.keyboard.press('Escape');
    const input = this.page.locator(INPUT).last();
    await this.until('the message to be sent', async () => {
      await this.page.keyboard.press('Enter');
      await this.sleep(1000);
      // A chat that just started replaces the input that the message was typed into.
      return !(await input.isVisible()) || !(await input.innerText()).replaceAll('\u00a0', ' ').includes(text.slice(0, 20));
    });
    if (this.isNewFolder) await this.trustFolder();
    this.isNewFolder = false;
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

  /** A button of the approval that is shown, by the beginning of its text. */
  approvalButton(label) {
    return this.approval().locator('.monaco-button', { hasText: new RegExp(`^${label}`) });
  }

  async approve(label) {
    await this.approvalButton(label).click();
  }

  /** The command in the approval that is shown, or nothing. */
  shownCommand() {
    return this.page.evaluate(() => {
      const shown = [...document.querySelectorAll('.chat-confirmation-message-terminal')].filter((element) => element.getBoundingClientRect().height > 0);
      const lines = [...(shown.at(-1)?.querySelectorAll('.view-line') ?? [])];
      lines.sort((one, other) => Number.parseFloat(one.style.top) - Number.parseFloat(other.style.top));
      return lines.map((line) => line.textContent).join('');
    });
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
  async choose(option) {
    await this.form().locator('.chat-question-list-item', { hasText: option }).first().click();
    await this.form().waitFor({ state: 'detached' });
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

  #appeared(kind, text) {
    if (kind === 'dialog') this.dialogs.push(text);
    else this.errors.push(`notification: ${text}`);
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

  /** Answers VS Code's question whether the user trusts a folder, as every user has to. The host takes no part in it. */
  async trustFolder() {
    await this.page.locator('.monaco-dialog-box', { hasText: 'Do you trust the authors' }).waitFor();
    await this.shoot('trust-folder');
    await this.confirmDialog('Do you trust the authors', 'Trust Folder & Continue');
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

  /** Picks an entry of the drop-down that an element opens. The entries of a host appear when it is connected. */
  async pick(opener, entry, seconds = 240) {
    const rows = this.page.locator('.action-widget .monaco-list-row');
    const row = rows.filter({ hasText: entry }).first();
    const question = this.page.locator('.monaco-dialog-box', { hasText: 'Do you trust the authors' });
    await this.until(`"${entry}" in the list`, async () => {
      // The Agents window proposes the folder of the latest session, and may ask about it before the user picks one.
      if (await question.count()) await question.locator('.monaco-button', { hasText: 'Cancel' }).click();
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
