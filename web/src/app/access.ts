// Signing in: a link has a one-time code in its fragment, which this page exchanges for a cookie.

export type Scope = "view" | "drive" | "admin";

export type Access =
  | { kind: "granted"; scope: Scope }
  /** This browser has to be opened with a link. */
  | { kind: "denied"; usedCode: boolean }
  | { kind: "unreachable" };

/** A network that drops packets must not keep the page at "Connecting…". */
const TIMEOUT_MS = 8_000;

async function post(path: string, body?: unknown): Promise<Response> {
  return fetch(path, {
    method: "POST",
    credentials: "same-origin",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body ?? {}),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
}

const CODE = /^#code=([\w-]+)$/;

/** Takes the code out of the address, so that it is not kept in the history. */
function takeCode(): string | undefined {
  const code = CODE.exec(location.hash)?.[1];
  if (code) history.replaceState(null, "", location.pathname);
  return code;
}

/** Whether the address has a code, as after a link was pasted into this tab. */
export function hasCode(): boolean {
  return CODE.test(location.hash);
}

/** Uses the code of the link if there is one, and finds out the rights of this browser. */
export async function signIn(): Promise<Access> {
  const code = takeCode();
  if (code) {
    const response = await post("/web/sign-in", { code }).catch(() => undefined);
    if (response?.ok) return granted(response);
    if (!response) {
      // The code was not used, so trying again has to find it.
      history.replaceState(null, "", `#code=${code}`);
      return { kind: "unreachable" };
    }
  }
  return currentAccess(code !== undefined);
}

export async function currentAccess(usedCode = false): Promise<Access> {
  const response = await post("/web/session").catch(() => undefined);
  if (!response) return { kind: "unreachable" };
  return response.ok ? granted(response) : { kind: "denied", usedCode };
}

export async function signOut(): Promise<void> {
  await post("/web/sign-out");
  location.reload();
}

async function granted(response: Response): Promise<Access> {
  const { scope } = (await response.json()) as { scope: Scope };
  return { kind: "granted", scope };
}
