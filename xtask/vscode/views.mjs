// What VS Code shows beside the chat: terminals and changes.

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

/** The steps in a session of the tour guide. */
export function viewSteps(window, stage) {
  const { wire } = window;
  const notes = join(stage.workspace, `notes-${window.name}.txt`);
  const git = (...args) => execFileSync('git', ['-C', stage.workspace, ...args], { encoding: 'utf8' }).trim();
  const edit = async (file, text) => {
    await window.send(`/edit ${basename(file)} ${text}`);
    await window.approve('Allow');
    await window.expectResponse('has one more line');
    if (!readFileSync(join(stage.workspace, basename(file)), 'utf8').endsWith(`${text}\n`)) throw new Error(`${file} has no line "${text}"`);
  };
  return [
    ['see a command of the agent in a terminal', async () => {
      await window.newSession('Tour guide');
      await window.say('/terminal', 'It ended with 3');
      await window.expectResponse('Ran printf');
      if (window.showsOutput) await window.expectResponse('Room 3 is ready.');
      await window.shoot('terminal-of-the-agent');
    }],
    ['use a terminal of the host', async () => {
      const output = () => wire.actions.filter(({ type }) => type === 'terminal/data').map(({ data }) => data).join('');
      const before = wire.requests.length;
      await window.openTerminal();
      const isTerminal = ({ method, params }) => method === 'subscribe' && params.channel.startsWith('agenthost-terminal:');
      await window.until('the terminal', async () => wire.requests.slice(before).some(isTerminal));
      await window.until('the shell to answer', async () => {
        await window.focusTerminal();
        await window.page.keyboard.type('echo $((6 * 7)) rooms', { delay: 20 });
        await window.page.keyboard.press('Enter');
        await window.sleep(3000);
        return output().includes('42 rooms');
      });
      await window.shoot('terminal');
      await window.command('Terminal: Kill the Active Terminal Instance');
      await window.until('the end of the shell', async () => wire.requests.slice(before).some(({ method }) => method === 'disposeTerminal'));
      await window.closePanel();
    }],
    ['see what a turn changed', async () => {
      await edit(notes, 'the first line');
      await edit(notes, 'the second line');
      await window.openTurnChanges();
      await window.diffLine('the second line').waitFor();
      await window.shoot('turn-changes');
      await window.closeDiff();
    }],
    ...(window.hasChangesView ? changesViewSteps(window, { notes, git, edit }) : []),
  ];
}

/** The view of all changes of a session, which only the Agents window has. */
function changesViewSteps(window, { notes, git, edit }) {
  const uncommitted = () => git('status', '--porcelain');
  return [
    ['look at the changes of the session', async () => {
      await window.openChanges();
      await window.changedFile(notes).waitFor();
      await window.diffLine('the first line').waitFor();
      await window.shoot('changes');
      await window.markAsViewed();
      await window.until('the review mark', async () => window.wire.actions.some(({ type, reviewed }) => type === 'changeset/filesReviewChanged' && reviewed));
    }],
    ['discard a changed file, and undo it', async () => {
      const before = readFileSync(notes, 'utf8');
      // VS Code offers no operation on an empty list.
      await edit('more.txt', 'another file');
      await window.pickChanges('Uncommitted changes');
      const added = async () => (await window.session('/terminal').first().innerText()).match(/\+\d+/)?.[0];
      const shown = await added();
      await window.discard(notes);
      await window.shoot('discard');
      await window.confirmDialog('This sets your files back to the last commit', 'Discard');
      await window.until('the file to be gone', async () => !existsSync(notes));
      await window.until('the file to leave the list', async () => !(await window.changedFile(notes).count()));
      await window.until('the row of the session to show fewer lines', async () => (await added()) !== shown);
      await window.shoot('discarded');
      await window.invokeOperation('Undo');
      await window.until('the file to be back', async () => existsSync(notes) && readFileSync(notes, 'utf8') === before);
      await window.changedFile(notes).waitFor();
    }],
    ['commit the changes', async () => {
      await window.invokeOperation('Commit all');
      await window.until('the commit', async () => uncommitted() === '');
      await window.until('the list to be empty', async () => !(await window.changedFile(notes).count()));
      await window.shoot('committed');
    }],
  ];
}
