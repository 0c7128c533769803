// A day's work: everything that a user does in the two windows of VS Code, in order.
//
// Both windows offer every step. They differ in two places: the editor window picks the folder for the whole window and
// the Agents window picks it for each session, and only the Agents window lists the forks of a session.

import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { permissionSteps } from './permissions.mjs';
import { viewSteps } from './views.mjs';

/** The answers to the form of the tour guide, which has one question of every kind. */
const ANSWERS = {
  name: 'Ada',
  'bed be': '2.1',
  nights: '3',
  pet: 'False',
  room: 'Garden',
  meals: 'Lunch',
};

/** The steps in the editor window. */
export function editorDay(editor, stage) {
  return [
    ['pick a folder', () => editor.openFolder(stage.workspace)],
    ['start a session and chat', () => startAndChat(editor)],
    ...commonSteps(editor, stage),
  ];
}

/** The steps in the Agents window. */
export function agentsDay(agents, stage) {
  return [
    ['pick a folder by clicking and start a session', async () => {
      await agents.pickFolderByClicking(['inn']);
      await agents.pickAgent('Tour guide');
      await agents.say('good morning', 'You wrote 2 words');
    }],
    ['pick a folder by typing, start a session and chat', async () => {
      await agents.openFolder(stage.workspace);
      await startAndChat(agents);
    }],
    ...commonSteps(agents, stage),
  ];
}

async function startAndChat(window) {
  await window.newSession('Tour guide');
  await window.say(`hello from the ${window.name}`, 'You wrote 4 words');
  await window.shoot('chat');
}

function commonSteps(window, stage) {
  const { page, wire } = window;
  return [
    ['approve a tool call and see its input', async () => {
      await window.send('/confirm');
      await window.expectApproval('"times"');
      await window.shoot('approval');
      await window.approve('Allow once');
      await window.expectResponse('I rang the bell');
    }],
    ['deny a tool call', async () => {
      await window.send('/confirm');
      await window.approve('Deny');
      await window.expectResponse('No bell, then');
    }],
    ['answer every kind of question', async () => {
      await window.send('/ask');
      await window.answerForm(ANSWERS);
      await window.expectResponse('height: 2.1');
      await window.shoot('answered');
    }],
    ['approve at depth two', async () => {
      await window.send('/subagent 2');
      await window.approve('Allow once');
      await window.expectResponse('everything is done');
      await window.shoot('subagents');
    }],
    ['run a tool of the window', async () => {
      await window.say(`/client-tool ${window.clientTool.call}`, window.clientTool.result);
      await window.shoot('client-tool');
    }],
    ['fork the conversation', async () => {
      const isFork = ({ type, summary }) => type === 'session/chatAdded' && summary.origin?.kind === 'fork';
      await window.send('/fork');
      await window.until('the fork', async () => wire.actions.some(isFork));
      const fork = wire.actions.find(isFork).summary.resource;
      // VS Code shows the fork as soon as it exists, with the same conversation as before.
      await window.until('the window to show the fork', async () => wire.requests.some(({ method, params }) => method === 'subscribe' && params.channel === fork));
      await window.sleep(3000);
      await window.say('only in the fork', 'You wrote 4 words');
      const turn = wire.actions.findLast(({ type, message }) => type === 'chat/turnStarted' && message.text === 'only in the fork');
      if (turn.channel !== fork) throw new Error(`the message went to ${turn.channel} and not to the fork ${fork}`);
      await window.shoot('fork');
    }],
    ...viewSteps(window, stage),
    ['look at the diff of an edit', async () => {
      rmSync(join(stage.workspace, 'guests.txt'), { force: true });
      await window.newSession('scribe');
      await window.send('please edit');
      await window.approvalButton('Allow').waitFor();
      await window.shoot('edit-approval');
      await window.openDiff();
      await window.diffLine('Grace').waitFor();
      await window.shoot('diff');
    }],
    ['approve the edit', async () => {
      await window.approve('Allow');
      await window.expectResponse('The guest list is written');
      const written = join(stage.workspace, 'guests.txt');
      if (!existsSync(written) || readFileSync(written, 'utf8') !== 'Ada\nGrace\n') throw new Error('guests.txt was not written');
      await window.shoot('edited');
      // VS Code restores an open diff before it is connected to the host, and leaves it empty.
      await window.closeDiff();
    }],
    ['run a command', async () => {
      await window.send('please run the command');
      await window.decideCommand('echo from-the-shell', 'Allow');
      await window.expectResponse('The command ran');
      await window.expectResponse('echo from-the-shell');
      await window.shoot('command');
    }],
    ['stop a turn while a command waits', async () => {
      const before = stage.commandsThatRan().length;
      await window.send('please make the attempts');
      await window.approvalButton('Skip').waitFor();
      await window.stop();
      // VS Code confirms the call that it cancelled a moment ago; the host takes that for nothing.
      await window.sleep(2000);
      const after = stage.commandsThatRan().slice(before);
      if (after.length) throw new Error(`ran after the turn was stopped: ${JSON.stringify(after)}`);
    }],
    ...permissionSteps(window, stage),
    ['rename a session', async () => {
      await window.renameSession(`hello from the ${window.name}`, `Greeting of the ${window.name}`);
      await window.session(`Greeting of the ${window.name}`).first().waitFor();
      await window.shoot('renamed');
    }],
    ['archive a session', async () => {
      await window.archiveSession('please edit');
      await window.until('the session to be archived', async () => wire.actions.some(({ type, isArchived }) => type === 'session/isArchivedChanged' && isArchived));
      await window.until('the session to leave the list', async () => (await window.session('please edit').count()) === 0);
      await window.shoot('archived');
    }],
    ['delete a session', async () => {
      const title = `good night from the ${window.name}`;
      await window.newSession('Tour guide');
      await window.say(title, 'You wrote 5 words');
      await window.deleteSession(title);
      await window.until('the session to leave the list', async () => (await window.session(title).count()) === 0);
      await window.shoot('deleted');
    }],
    ['reload the window', async () => {
      await window.reload();
      await window.openSession(`Greeting of the ${window.name}`);
      await window.expectResponse(window.reopened);
      for (const gone of ['New session', 'good night', 'please edit']) {
        if (await window.session(gone).count()) throw new Error(`the list has "${gone}" after the window was loaded again`);
      }
      await window.shoot('reloaded');
    }],
    ['restart the host in the middle of a turn', async () => {
      // A session of its own: after a restart the Agents window shows the first chat of a session and not the fork.
      await window.newSession('Tour guide');
      await window.say('good evening', 'You wrote 2 words');
      await window.send('/slow 60');
      await window.until('the turn to run', () => window.isBusy());
      await window.sleep(2000);
      await stage.restartHost();
      await window.expectResponse('the host stopped while this turn was running');
      // No list shows the turn as running any more.
      const row = window.page.locator('.monaco-list-row:visible', { hasText: 'Taking it slowly' });
      await window.until('its row to show the end of the turn', async () => !(await row.count()), 30);
      await window.shoot('restarted');
      await window.say('hello again', 'You wrote 2 words');
    }],
    ['answer whether the MCP servers of a workspace may run', async () => {
      const folder = stage.createFolderWithServer(`annex-${window.name}`);
      await window.openFolder(folder);
      await window.newSession('scribe');
      await window.send('please ring the bell');
      await window.form().getByText('declares MCP servers').waitFor();
      await window.form().getByText('bell.mjs').first().waitFor();
      if (await window.form().getByPlaceholder('Enter custom answer').count()) throw new Error('the question offers an answer that the host does not take');
      await window.shoot('trust');
      if (stage.bellEvents().length) throw new Error('the server ran before anybody allowed it');
      await window.answer('Allow them');
      await window.expectApproval('"times"');
      await window.shoot('mcp-approval');
      await window.approve('Allow once');
      await window.expectResponse('The bell has been rung');
      const events = stage.bellEvents();
      if (events.join() !== 'started,rang 3 times') throw new Error(`the server noted ${JSON.stringify(events)}`);
      await window.shoot('mcp');
    }],
  ];
}
