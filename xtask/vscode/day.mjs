// A day's work: everything that a user does in the two windows of VS Code, in order.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const ANSWERS = {
  name: 'Ada',
  'bed be': '2.1',
  nights: '3',
  pet: 'False',
  room: 'Garden',
  meals: 'Lunch',
};

/** The steps in the editor window. */
export function editorSteps(editor, { workspace, restartHost }) {
  const { page } = editor;
  return [
    ['start a session and chat', async () => {
      await editor.newSession('Tour guide');
      await editor.say('hello there', 'You wrote 2 words');
      await editor.shoot('chat');
    }],
    ['approve a tool call', async () => {
      await editor.send('/confirm');
      await page.getByRole('button', { name: 'Allow once' }).last().waitFor();
      await editor.shoot('approval');
      await editor.approve('Allow once');
      await editor.expectResponse('I rang the bell');
    }],
    ['deny a tool call', async () => {
      await editor.send('/confirm');
      await editor.approve('Deny');
      await editor.expectResponse('No bell, then');
    }],
    ['answer every kind of question', async () => {
      await editor.send('/ask');
      await editor.answerForm(ANSWERS);
      await editor.expectResponse('height: 2.1');
      await editor.shoot('answered');
    }],
    ['approve at depth two', async () => {
      await editor.send('/subagent 2');
      await editor.approve(/Allow once/);
      await editor.expectResponse('everything is done', 60);
      await editor.shoot('subagents');
    }],
    ['run a tool of the window', async () => {
      await editor.send('/client-tool usages {"symbol":"inn","filePath":"README.md","lineContent":"# Inn"}');
      await editor.until('the tool to end', async () => !(await editor.isBusy()), 60);
      await editor.shoot('client-tool');
    }],
    ['look at the diff of an edit', async () => {
      await editor.newSession('scribe');
      await editor.send('please edit');
      await page.getByRole('button', { name: /^(Allow|Keep|Accept)/ }).last().waitFor({ timeout: 40_000 });
      await editor.shoot('edit-approval');
      await page.locator('.auxiliarybar .codicon-diff-multiple:visible').last().click();
      await page.locator('.editor-group-container .view-line', { hasText: 'Grace' }).first().waitFor();
      await editor.shoot('diff');
    }],
    ['approve the edit', async () => {
      await page.getByRole('button', { name: /^(Allow|Keep|Accept)/ }).last().click();
      await editor.expectResponse('The guest list is written', 60);
      const written = join(workspace, 'guests.txt');
      if (!existsSync(written) || readFileSync(written, 'utf8') !== 'Ada\nGrace\n') throw new Error('guests.txt was not written');
      await editor.shoot('edited');
    }],
    ['run a command', async () => {
      await editor.send('please run the command');
      await page.getByRole('button', { name: /^(Allow|Continue|Run)/ }).last().waitFor({ timeout: 40_000 });
      await editor.shoot('command-approval');
      await page.getByRole('button', { name: /^(Allow|Continue|Run)/ }).last().click();
      await editor.expectResponse('The command ran', 60);
      await editor.shoot('command');
    }],
    ['reload the window', async () => {
      await editor.page.reload({ waitUntil: 'domcontentloaded' });
      await editor.waitForInput();
      await editor.showSessions();
      await editor.session('hello there').first().click();
      await editor.expectResponse('everything is done', 60).catch(() => editor.until('the history', async () => (await editor.responses().count()) > 0));
      await editor.shoot('reloaded');
    }],
    ['restart the host in the middle of a turn', async () => {
      await editor.send('/slow 60');
      await editor.until('the turn to run', () => editor.isBusy());
      await restartHost();
      await editor.until('the interrupted turn to end', async () => !(await editor.isBusy()), 90);
      await editor.shoot('restarted');
      await editor.say('hello again', 'You wrote 2 words', 60);
    }],
  ];
}

/** The steps in the Agents window. */
export function agentsSteps(agents, { workspace, parents }) {
  const { page } = agents;
  return [
    ['pick a folder by clicking', async () => {
      await agents.pickFolderByClicking(parents);
    }],
    ['start a session and chat', async () => {
      await agents.pickAgent('Tour guide');
      await agents.say('hello there', 'You wrote 2 words', 60);
      await agents.shoot('chat');
    }],
    ['pick a folder by typing', async () => {
      await agents.newSession();
      await agents.pickFolderByTyping(workspace);
      await agents.pickAgent('Tour guide');
      await agents.say('good evening to you', 'You wrote 4 words', 60);
    }],
    ['approve a tool call', async () => {
      await agents.send('/confirm');
      await agents.approve(/Allow once/);
      await agents.expectResponse('I rang the bell');
    }],
    ['answer every kind of question', async () => {
      await agents.send('/ask');
      await agents.answerForm(ANSWERS);
      await agents.expectResponse('height: 2.1');
    }],
    ['approve at depth two', async () => {
      await agents.send('/subagent 2');
      await agents.approve(/Allow once/);
      await agents.expectResponse('everything is done', 60);
      await agents.shoot('subagents');
    }],
    ['fork the conversation', async () => {
      const rows = page.locator('.monaco-list-row', { hasText: 'good evening' });
      await agents.send('/fork');
      await agents.until('a fork below its session', async () => (await rows.count()) > 1);
      await agents.shoot('fork');
    }],
    ['rename a session', async () => {
      await agents.menu(agents.session('hello there').first(), 'Rename');
      await page.keyboard.press('Control+a');
      await page.keyboard.type('Morning greeting');
      await page.keyboard.press('Enter');
      await agents.until('the new title', async () => (await agents.session('Morning greeting').count()) > 0);
      await agents.shoot('renamed');
    }],
    ['archive a session', async () => {
      await agents.menu(agents.session('Morning greeting').first(), 'Archive');
      await agents.sleep(1500);
      await agents.shoot('archived');
    }],
    ['delete a session', async () => {
      const row = agents.session('good evening').first();
      await agents.menu(row, 'Delete');
      await agents.shoot('delete');
      await agents.confirmDialog('Delete');
      await agents.until('the session to go', async () => (await agents.session('good evening').count()) === 0);
    }],
    ['reload the window', async () => {
      await agents.reload();
      await agents.until('no leftover drafts', async () => (await agents.session('New session').count()) === 0);
      await agents.shoot('reloaded');
    }],
  ];
}
