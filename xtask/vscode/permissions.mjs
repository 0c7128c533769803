// VS Code's own permission picker, which it shows for the setting `autoApprove` of a session.

import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

/** The tool refuses a command without words and one with NUL before it could ask anybody. */
const isRefused = (line) => !line.trim() || line.includes('\0');

/** The steps in a session of the agent that runs commands. */
export function permissionSteps(window, stage) {
  const { levels, wire } = window;
  const startOf = (line) => line.slice(0, 40);
  return [
    ['run a command that a remembered rule covers', async () => {
      // For a command VS Code offers Allow and Skip only, whatever options the host sends. So rules come from the shell.
      for (const rule of stage.corpus.remembered.filter((rule) => rule.startsWith('run_command'))) stage.innkeeper('approvals', 'allow', rule);
      await window.pickPermission(levels.ask);
      await window.until('the level that asks', async () => (await window.permission().innerText({ timeout: 2000 })).includes(levels.ask));
      const before = stage.commandsThatRan().length;
      await window.say('please run the tests', 'The tests passed');
      const answer = await window.lastResponse();
      if (!answer.includes('cargo test -p core')) throw new Error(`the command is not visible in "${answer}"`);
      const ran = stage.commandsThatRan().slice(before);
      if (ran.join() !== 'cargo test -p core') throw new Error(`ran ${JSON.stringify(ran)}`);
      await window.shoot('ran-by-rule');
    }],
    ['be asked about every attempt to pass under a remembered rule', async () => {
      const before = stage.commandsThatRan().length;
      const seen = wire.actions.length;
      await window.send('please make the attempts');
      let asked = 0;
      for (const [_trick, line] of stage.corpus.attempts) {
        if (isRefused(line)) continue;
        if (asked === 6) await window.shoot('attempt');
        await window.decideCommand(line, 'Skip');
        asked += 1;
      }
      await window.expectResponse('That was the last attempt');
      await window.shoot('attempts');
      if (asked < 100) throw new Error(`only ${asked} attempts were asked about`);
      // The frames say the same: no call was ready to run before the window was asked.
      const ready = wire.actions.slice(seen).filter(({ type }) => type === 'chat/toolCallReady');
      const pending = ready.filter(({ confirmed }) => confirmed === undefined).map(({ toolInput }) => JSON.parse(toolInput).command);
      const expected = stage.corpus.attempts.map(([_trick, line]) => line).filter((line) => !isRefused(line));
      const missed = expected.filter((line) => !pending.includes(line));
      if (missed.length) throw new Error(`not asked about: ${missed.map(startOf).join(' | ')}`);
      const ran = stage.commandsThatRan().slice(before);
      if (ran.length) throw new Error(`ran: ${ran.map(startOf).join(' | ')}`);
      if (readFileSync(join(stage.workspace, 'src/main.rs'), 'utf8') !== 'fn main() {}\n') throw new Error('src/main.rs changed');
      console.log(`        ${window.name}: ${asked} commands were asked about and skipped, and none of them ran`);
    }],
    ['allow everything with the picker, and take it back', async () => {
      const guests = join(stage.workspace, 'guests.txt');
      const removal = 'rm guests.txt; echo removed';
      await window.pickPermission(levels.allowAll);
      await window.shoot('allow-everything');
      await window.confirmDialog(levels.allowAll, 'Enable');
      await window.until('the level that allows everything', async () => (await window.permission().innerText({ timeout: 2000 })).includes(levels.allowAll));
      await window.say('please do the removal', 'The guest list is gone');
      if (!(await window.lastResponse()).includes(removal)) throw new Error('the command is not visible');
      if (existsSync(guests)) throw new Error('guests.txt still exists');
      await window.shoot('allowed-everything');
      await window.pickPermission(levels.ask);
      await window.until('the level that asks', async () => (await window.permission().innerText({ timeout: 2000 })).includes(levels.ask));
      const before = stage.commandsThatRan().length;
      await window.send('please do the removal');
      await window.decideCommand(removal, 'Skip');
      await window.expectResponse('The guest list is gone');
      if (stage.commandsThatRan().length !== before) throw new Error('the command ran although it was skipped');
      // The other window works in the same folder and starts without rules.
      stage.innkeeper('approvals', 'revoke', '--all');
    }],
  ];
}
