// Errors that a run may show, each with the reason that was observed. Everything else fails the run.

/** Files of its own and of other tools that VS Code looks for in every folder. */
const SETTINGS_FILE = /^\/(\.vscode(\/(tasks|mcp|launch|settings)\.json)?|\.mcp\.json|(\.claude|\.github\/copilot)(\/settings(\.local)?\.json)?)$/;

/** The path of a `file:` URI below a folder of the run, from the slash on, or nothing. */
function pathInFolder(uri, stage) {
  const folder = stage.folders.find((folder) => uri?.startsWith(`file://${folder}/`) || uri === `file://${folder}`);
  return folder && uri.slice(`file://${folder}`.length);
}

/** Requests that the host refuses. `is` gets the request and the error in one object. */
const REFUSALS = [
  {
    reason: 'VS Code looks for settings files in a folder. They do not exist there.',
    is: ({ method, code, params }, stage) =>
      code === -32008 && /^(resourceResolve|resourceRead|createResourceWatch)$/.test(method) && SETTINGS_FILE.test(pathInFolder(params.uri, stage)),
  },
  {
    reason: 'VS Code reads these files before it starts a session in the folder. Files can be read only where a session works.',
    is: ({ method, code, params }, stage) => code === -32009 && method === 'resourceRead' && SETTINGS_FILE.test(pathInFolder(params.uri, stage)),
  },
  {
    reason: 'The folder picker looks up the typed path after each character.',
    is: ({ method, code, params }, stage) => code === -32008 && method === 'resourceResolve' && stage.folders.some((folder) => `file://${folder}`.startsWith(params.uri)),
  },
  {
    reason: 'VS Code looks up the file that an edit is about to create.',
    is: ({ method, code, params }, stage) => code === -32008 && method === 'resourceResolve' && pathInFolder(params.uri, stage) === '/guests.txt',
  },
  {
    reason: 'VS Code looks up a file again that was discarded a moment ago.',
    is: ({ method, code, params }, stage) => code === -32008 && method === 'resourceResolve' && /^\/notes-\w+\.txt$/.test(pathInFolder(params.uri, stage)),
  },
  {
    reason: 'VS Code watches both sides of a diff. They are stored and never change, so the host has no watch for them.',
    is: ({ method, code, params }) => code === -32008 && method === 'createResourceWatch' && params.uri.startsWith('innkeeper-content://'),
  },
  {
    reason: 'The Agents window shows the session that it showed last when it is loaded again, also a session that was deleted.',
    is: ({ method, code, params }, stage) =>
      code === -32001 && method === 'subscribe' && stage.wires.agents.removed.some((session) => [session, defaultChat(session)].includes(params.channel)),
  },
];

/** The URI of the first chat of a session, as VS Code computes it. */
function defaultChat(session) {
  return `ahp-chat://default/${Buffer.from(session).toString('base64url')}`;
}

/** The browser's message about a file that the server of a window lacks. */
const missing = (path) => new RegExp(`^console error: Failed to load resource: the server responded with a status of 404 \\(Not Found\\) http://127\\.0\\.0\\.1:\\d+/${path}$`);

/** Errors on the console, in notifications and of the page. */
const ERRORS = [
  {
    reason: 'The VS Code server has no updates: it is an npm package.',
    pattern: missing('update/check'),
  },
  {
    reason: 'This module is not free software, and the npm package lacks it.',
    pattern: missing('stable-\\w+/static/node_modules/vsda/rust/web/vsda(\\.js|_bg\\.wasm)'),
  },
  {
    reason: 'The icons and the picture of the welcome page belong to a part of the npm package that does not run here.',
    pattern: missing('_static/src/browser/media/(favicon(\\.ico|-dark-support\\.svg)|templates\\.png)'),
  },
  {
    reason: 'The service worker belongs to a part of the npm package that does not run here.',
    pattern: /^console error: (A bad HTTP response code \(404\) was received when fetching the script\.|ERR {2}\[Service Worker\] registration TypeError: .*\/_static\/out\/browser\/serviceWorker\.js)/,
  },
  {
    reason: 'There is no marketplace without the internet.',
    pattern: /^console error: Failed to load resource: net::ERR_NAME_NOT_RESOLVED https:\/\/open-vsx\.org\/vscode\/gallery\/extensionquery$/,
  },
  {
    reason: 'There is no marketplace. VS Code logs this without a host as well.',
    pattern: /^console error: ERR {2}(An unknown error occurred\. Please consult the log for more details\.$|Failed: getaddrinfo ENOTFOUND open-vsx\.org\n)/,
  },
  {
    reason: 'The extension that signs in to GitHub is not installed.',
    pattern: /^console error: ERR {2}Error: Timed out waiting for authentication provider 'github' to register\./,
  },
  {
    reason: 'The user trusts the folder, and VS Code starts its extensions again, one of them twice.',
    pattern: /^console error: (ERR {2})?(\[Extension Host\] )?Extension `vscode\.typescript-language-features` is already registered/,
  },
  {
    reason: 'The window opens another folder while VS Code reads the settings files of this one.',
    pattern: /^console error: ERR {2}\w+: Unable to read file 'vscode-remote:\/\/[^']*\/\.vscode\/(settings|tasks|launch|mcp)\.json' \(Canceled: Canceled\)/,
  },
  {
    reason: 'VS Code says so whenever its window is loaded again in a browser.',
    pattern: /^console error: ERR {2}\[lifecycle\] Long running operations during shutdown are unsupported in the web \(id: (join\.(disconnectRemote|stopExtensionHosts|chatSessionStore|chatEditingSession)|workbench\.contrib\.editorChatUsage)\)$/,
  },
  {
    reason: 'The window is loaded again while VS Code writes a file of its own.',
    pattern: /^console error: ERR {2}Error creating chat editing session content folder vscode-remote:\S+\/chatEditingSessions\/\S+\/contents Canceled: Canceled/,
  },
  {
    reason: 'The Agents window is loaded again while VS Code writes its log of the connection into the database of the page.',
    pattern: /^console error: ERR {2}\[AHPLog\] Failed to write transport log FileOperationError: Unable to write file 'vscode-log:\S+\.jsonl' \(Error: IndexedDB database 'vscode-web-db' is closed\.\)/,
  },
  {
    reason: 'A window is loaded again while it uses the database of the page.',
    pattern: /^console error: ERR {2}(InvalidStateError: )?Failed to execute 'abort' on 'IDBTransaction': The transaction has finished\./,
  },
  {
    reason: 'The Agents window shows the files of another folder while its tree of files still has the focus of the last one.',
    pattern: /^console error: ERR {2}TreeError \[FileExplorer\] Tree element not found: /,
  },
  {
    reason: 'The Agents window reads the settings of the last folder before it is connected to the host again.',
    pattern: /^console error: ERR {2}FileOperationError: Unable to read file 'vscode-agent-host:\S+\/\.vscode\/(tasks|mcp|launch|settings)\.json\?\S+' \(Unavailable \(FileSystemError\): No connection for authority: 127\.0\.0\.1__\d+\)/,
  },
  {
    reason: 'The Agents window replaces the input that a session was started from.',
    pattern: /^console error: ERR {2}Failed to hold the chat input model reference Error: Unable to resolve resource sessions-chat:input-\d+/,
  },
  {
    reason: 'VS Code counts its own listeners and finds many when the editor window lists the changed files of a turn.',
    pattern: /^console error: ERR {2}ListenerRefusalError: potential listener LEAK detected, popular$/,
  },
  {
    reason: 'VS Code tells extensions about the tab of a diff, which has another label a moment later.',
    pattern: /^console error: ERR {2}Invalid model for label change, rebuilding$/,
  },
];

function describe(refusal) {
  const { method, action, params, code, message } = refusal;
  return action ? `${action} rejected: ${message}` : `${method} ${params?.uri ?? params?.channel ?? ''} answered ${code}: ${message}`;
}

/** Sorts the errors of a run: those without a known reason, and how often each known reason occurred. */
export function judge(stage) {
  const unexpected = [];
  const counts = new Map([...REFUSALS, ...ERRORS].map(({ reason }) => [reason, 0]));
  const sort = (entry, text) => {
    if (entry) counts.set(entry.reason, counts.get(entry.reason) + 1);
    else unexpected.push(text);
  };
  for (const { name, errors } of stage.windows) {
    for (const { text, step } of errors) sort(ERRORS.find(({ pattern }) => pattern.test(text)), `${name}: ${text} (while it should ${step})`);
  }
  for (const { name, refusals } of Object.values(stage.wires)) {
    for (const refusal of refusals) {
      const known = refusal.method && REFUSALS.find(({ is }) => is(refusal, stage));
      sort(known, `${name} wire: ${describe(refusal)}`);
    }
  }
  return { unexpected, counts };
}
