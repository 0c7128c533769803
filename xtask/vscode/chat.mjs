// A window of VS Code with a chat in it, driven as a user would: by typing, clicking and reading.

import { join } from 'node:path';

/** The input of an open chat, and the one that starts a session in the Agents window. */
const INPUT = '.chat-input-container .monaco-editor:visible, .sessions-chat-editor .monaco-editor:visible';
const RESPONSE = '.interactive-item-container.interactive-response';
const FORM = '.chat-question-carousel-container';

export class ChatWindow {
  /** Errors of the console and of the page, and error notifications that were on the screen. */
  errors = [];
  #shots = 0;

  constructor(name, page, directory) {
    this.name = name;
    this.page = page;
    this.directory = directory;
    page.setDefaultTimeout(20_000);
    page.on('pageerror', (error) => this.errors.push(`page error: ${error.message}`));
    page.on('console', (message) => {
      // VS Code logs everything through the console: its own errors start with "ERR".
      if (message.type() === 'error') this.errors.push(`console error: ${message.text().replace(/%c|color: #\w+/g, '').trim()}`);
    });
  }

  sleep(milliseconds) {
    return this.page.waitForTimeout(milliseconds);
  }

  async shoot(title) {
    const number = String(++this.#shots).padStart(2, '0');
    await this.page.screenshot({ path: join(this.directory, `${this.name}-${number}-${title}.png`) });
  }

  /** Waits until a condition holds, or fails with what was expected. */
  async until(expected, condition, seconds = 30) {
    const end = Date.now() + seconds * 1000;
    while (!(await condition().catch(() => false))) {
      if (Date.now() > end) throw new Error(`expected ${expected} within ${seconds} s`);
      await this.sleep(150);
    }
  }

  /** Types a message and sends it. */
  async send(text) {
    await this.collectNotifications();
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
  }

  async waitForInput() {
    await this.page.locator(INPUT).last().waitFor({ timeout: 120_000 });
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
  async expectResponse(text, seconds = 40) {
    await this.until(`the answer "${text}"`, async () => (await this.lastResponse()).includes(text), seconds);
    await this.until('the turn to end', async () => !(await this.isBusy()), seconds);
  }

  async say(text, answer, seconds) {
    await this.send(text);
    await this.expectResponse(answer, seconds);
  }

  /** Clicks a button of the approval that is shown. */
  async approve(label) {
    await this.page.getByRole('button', { name: label }).last().click();
  }

  /** Answers the questions that are shown, by a part of their titles, and submits them. */
  async answerForm(answers) {
    const form = this.page.locator(FORM).last();
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

  /** Takes the error notifications off the screen and records them. */
  async collectNotifications() {
    for (const toast of await this.page.locator('.notifications-toasts .notification-list-item').all()) {
      const text = (await toast.innerText().catch(() => '')).replace(/\s+/g, ' ');
      if (await toast.locator('.codicon-error').count()) this.errors.push(`notification: ${text}`);
      await toast.hover().catch(() => {});
      await toast.locator('.codicon-notifications-clear').first().click({ timeout: 2000 }).catch(() => {});
    }
  }

  /** A dialog over the window: its text, or nothing. */
  async dialog() {
    const box = this.page.locator('.monaco-dialog-box');
    return (await box.count()) ? (await box.innerText()).replace(/\s+/g, ' ') : undefined;
  }

  async confirmDialog(button) {
    await this.page.locator('.monaco-dialog-box .monaco-button', { hasText: button }).click();
    await this.sleep(500);
  }

  /** Runs a command of the command palette. */
  async command(name) {
    await this.page.keyboard.press('F1');
    await this.sleep(500);
    await this.page.keyboard.type(name, { delay: 5 });
    await this.sleep(900);
    await this.page.keyboard.press('Enter');
    await this.sleep(800);
  }

  /** Picks an entry of the drop-down that an element opens. */
  async pick(opener, entry) {
    await opener.click();
    await this.page.locator('.action-widget .monaco-list-row').first().waitFor();
    await this.sleep(300);
    const row = this.page.locator('.action-widget .monaco-list-row', { hasText: entry }).first();
    if (!(await row.count())) {
      await this.page.keyboard.press('Escape');
      throw new Error(`the list has no "${entry}"`);
    }
    const box = await row.boundingBox();
    // The list lies below a layer that catches the clicks of Playwright.
    await this.page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    await this.sleep(800);
    return true;
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
