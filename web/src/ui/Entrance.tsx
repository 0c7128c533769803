// The first thing on the page: signs in, then shows the app, or says what to do.

import { Match, Switch, createResource, onCleanup, onMount } from "solid-js";
import type { JSX } from "solid-js";
import { hasCode, signIn } from "../app/access";
import { HostConnection } from "../app/host";
import { App } from "./App";

export function Entrance(): JSX.Element {
  const [access] = createResource(signIn);
  // A new link changes only the fragment of the address, so the browser does not load the page again.
  const again = () => {
    if (hasCode()) location.reload();
  };
  onMount(() => window.addEventListener("hashchange", again));
  onCleanup(() => window.removeEventListener("hashchange", again));
  return (
    <Switch fallback={<p class="center muted">Connecting…</p>}>
      <Match when={access()?.kind === "granted" && access()} keyed>
        {(granted) => (granted.kind === "granted" ? <Connected scope={granted.scope} /> : null)}
      </Match>
      <Match when={access()?.kind === "denied" && access()} keyed>
        {(denied) => <SignedOut usedCode={denied.kind === "denied" && denied.usedCode} />}
      </Match>
      <Match when={access()?.kind === "unreachable"}>
        <Message title="The host does not answer">
          <p>Check that it runs, then try again.</p>
          <button class="button primary" onClick={() => location.reload()}>
            Try again
          </button>
        </Message>
      </Match>
    </Switch>
  );
}

function Connected(props: { scope: "view" | "drive" | "admin" }): JSX.Element {
  const host = new HostConnection(props.scope);
  // Tests read the mirror here and compare it with fresh snapshots.
  Object.assign(window, { innkeeper: host });
  return <App host={host} />;
}

export function SignedOut(props: { usedCode: boolean }): JSX.Element {
  return (
    <Message title={props.usedCode ? "This link has been used" : "Sign in with a link"}>
      <p>
        {props.usedCode
          ? "A link works once, within ten minutes. Get a new one on the machine where the host runs:"
          : "This browser is not signed in. Get a link on the machine where the host runs:"}
      </p>
      <pre class="command">innkeeper open</pre>
      <p class="muted">
        For a phone or another machine, <code>innkeeper pair</code> prints a link and a QR code.
      </p>
    </Message>
  );
}

export function Message(props: { title: string; children: JSX.Element }): JSX.Element {
  return (
    <main class="center">
      <div class="card message">
        <img src="/icon.svg" alt="" width="48" height="48" />
        <h1>{props.title}</h1>
        {props.children}
      </div>
    </main>
  );
}
