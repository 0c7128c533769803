// Plays a day's work in VS Code against a host: `node main.mjs --installed DIR --run DIR --innkeeper FILE --chromium FILE`.

import { parseArgs } from 'node:util';
import { agentsDay, editorDay } from './day.mjs';
import { judge } from './known.mjs';
import { Stage } from './stage.mjs';

const { values: options } = parseArgs({
  options: {
    installed: { type: 'string' },
    run: { type: 'string' },
    innkeeper: { type: 'string' },
    chromium: { type: 'string' },
    only: { type: 'string' },
  },
});

const failures = [];

async function play(window, steps) {
  for (const [name, step] of steps) {
    const started = Date.now();
    window.step = name;
    try {
      await step();
      const [dialog] = window.dialogs.splice(0);
      if (dialog) throw new Error(`a dialog appeared: ${dialog}`);
      console.log(`ok      ${window.name}: ${name} (${((Date.now() - started) / 1000).toFixed(1)} s)`);
    } catch (error) {
      console.log(`FAILED  ${window.name}: ${name}: ${error.message.split('\n')[0]}`);
      failures.push(`${window.name}: ${name}: ${error.message.split('\n')[0]}`);
      await window.shoot(`failed-${name.replaceAll(' ', '-')}`);
      // The next steps are tried in any case, so that one run shows as much as possible.
      await window.page.keyboard.press('Escape');
    }
  }
}

const stage = new Stage(options);
try {
  await stage.open();
  if (options.only !== 'agents') {
    const editor = await stage.openEditor();
    await play(editor, editorDay(editor, stage));
    await editor.page.close();
  }
  if (options.only !== 'editor') {
    const agents = await stage.openAgents();
    await play(agents, agentsDay(agents, stage));
    await agents.page.close();
  }
} finally {
  await stage.close();
}
const { unexpected, counts } = judge(stage);
failures.push(...unexpected);

console.log('\nerrors with a known reason:');
for (const [reason, count] of counts) console.log(`  ${String(count).padStart(4)}  ${reason}`);
console.log(`\nscreenshots, logs and frames: ${stage.run}`);
if (failures.length) {
  console.log(`${failures.length} findings:`);
  for (const failure of new Set(failures)) console.log(`  ${failure}`);
  process.exit(1);
}
console.log('VS Code worked all day');
process.exit(0);
