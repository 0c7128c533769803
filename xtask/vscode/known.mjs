// Errors that a run may show, each with its reason. Everything else fails the run.

export const KNOWN = [
  { pattern: /(create|dispose)Terminal|terminal process failed to launch/i, reason: 'terminals are not implemented yet' },
  { pattern: /automation/i, reason: 'automations are not implemented yet' },
  { pattern: /changeset/i, reason: 'changesets are not implemented yet' },
  { pattern: /ERR_(NAME_NOT_RESOLVED|INTERNET_DISCONNECTED|CONNECTION_REFUSED|FAILED)|Failed to fetch|net::ERR_/i, reason: 'VS Code looks for services on the internet, and for the host while it restarts' },
  { pattern: /Failed to load resource: the server responded with a status of 404/, reason: 'files that the web builds of VS Code lack' },
  { pattern: /serviceWorker\.js|A bad HTTP response code \(404\)/, reason: 'the npm package of the VS Code server has no service worker' },
  { pattern: /An unknown error occurred\. Please consult the log/, reason: 'VS Code finds no marketplace; it logs this without a host as well' },
  { pattern: /authentication provider 'github'/, reason: 'nobody is signed in to GitHub' },
  { pattern: /Long running operations during shutdown|Canceled: Canceled/, reason: 'the window is reloaded while it writes its own files' },
  { pattern: /\[AHPLog\]|No connection for authority/, reason: 'the window closes its own database and connection while it is reloaded' },
  { pattern: /chat input model reference/, reason: 'the Agents window lets go of the input that started a session' },
  { pattern: /WebSocket (connection to|is closed)|WebSocket error/i, reason: 'the window notices that the host restarts' },
];

export function unexpected(findings) {
  return findings.filter((finding) => !KNOWN.some(({ pattern }) => pattern.test(finding)));
}
