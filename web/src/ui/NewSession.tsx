// The form for a new session: agent, directory, settings, and the first message.

import { For, Show, createEffect, createMemo, createResource, createSignal } from "solid-js";
import type { JSX } from "solid-js";
import type { ResolveSessionConfigResult } from "../ahp/types.gen";
import { ROOT } from "../ahp/client";
import type { HostConnection } from "../app/host";
import { report } from "../app/notices";
import { go } from "../app/route";
import { storeFirst } from "../app/sending";
import { createSession, directoryOf, orderByUse, userMessage } from "../app/session";
import { fileUri, pathOf } from "../app/words";
import { DirectoryPicker } from "./DirectoryPicker";
import { Settings, shownProperties } from "./Settings";
import { Icon } from "./icons";

export function NewSession(props: { host: HostConnection }): JSX.Element {
  const agents = createMemo(() => props.host.root()?.agents ?? []);
  const [provider, setProvider] = createSignal(localStorage.getItem("agent") ?? "");
  const [model, setModel] = createSignal("");
  const [directory, setDirectory] = createSignal("");
  const [config, setConfig] = createSignal<Record<string, unknown>>({});
  const [text, setText] = createSignal("");
  const [browsing, setBrowsing] = createSignal(false);
  const [busy, setBusy] = createSignal(false);
  const recent = createMemo(() => orderByUse(props.host.sessions().map(directoryOf)).slice(0, 8));
  const agent = createMemo(() => agents().find((other) => other.provider === provider()) ?? agents()[0]);
  createEffect(() => {
    if (directory() !== "") return;
    const start = recent()[0] ?? pathOf(props.host.client.host?.defaultDirectory ?? "");
    if (start) setDirectory(start);
  });

  const [settings] = createResource(
    () => agent() && { provider: agent()!.provider, directory: directory(), online: props.host.connectivity().kind },
    async (wanted): Promise<ResolveSessionConfigResult | undefined> => {
      if (wanted.online !== "online") return undefined;
      const params = {
        channel: ROOT,
        provider: wanted.provider,
        ...(wanted.directory.startsWith("/") && { workingDirectory: fileUri(wanted.directory) }),
      };
      return props.host.client.request<ResolveSessionConfigResult>("resolveSessionConfig", params).catch(() => undefined);
    },
  );

  const submit = async (event: Event) => {
    event.preventDefault();
    if (busy()) return;
    setBusy(true);
    try {
      const path = directory().trim();
      const session = await createSession(props.host, {
        provider: agent()?.provider,
        directory: path ? fileUri(path) : undefined,
        config: Object.keys(config()).length > 0 ? config() : undefined,
      });
      localStorage.setItem("agent", agent()?.provider ?? "");
      if (text().trim()) {
        const message = userMessage(text().trim(), model() ? { model: { id: model() } } : undefined);
        storeFirst(session, message);
      } else if (model()) {
        sessionStorage.setItem(`model:${session}`, model());
      }
      go({ page: "session", session });
    } catch (error) {
      report("The session could not be created")(error);
    } finally {
      setBusy(false);
    }
  };

  return (
    <div class="page">
      <header class="page-head">
        <a class="icon-button back" href="#/" aria-label="Back to sessions">
          <Icon name="back" />
        </a>
        <h1>New session</h1>
      </header>
      <form class="form" onSubmit={(event) => void submit(event)}>
        <fieldset class="choices">
          <legend>Agent</legend>
          <For each={agents()} fallback={<p class="muted">Loading agents…</p>}>
            {(other) => (
              <label class="choice">
                <input
                  type="radio"
                  name="agent"
                  value={other.provider}
                  checked={agent()?.provider === other.provider}
                  onChange={() => {
                    setProvider(other.provider);
                    setModel("");
                    setConfig({});
                  }}
                />
                <span>
                  <strong>{other.displayName}</strong>
                  <small>{other.description}</small>
                </span>
              </label>
            )}
          </For>
        </fieldset>
        <Show when={(agent()?.models.length ?? 0) > 0}>
          <label class="field">
            <span>Model</span>
            <select value={model()} onChange={(event) => setModel(event.currentTarget.value)}>
              <option value="">Default</option>
              <For each={agent()?.models}>{(entry) => <option value={entry.id}>{entry.name}</option>}</For>
            </select>
          </label>
        </Show>
        <div class="field">
          <label for="directory">Directory on the host</label>
          <div class="with-button">
            <input
              id="directory"
              list="recent-directories"
              value={directory()}
              placeholder="/path/to/project"
              autocomplete="off"
              spellcheck={false}
              onChange={(event) => setDirectory(event.currentTarget.value)}
            />
            <Show when={props.host.scope === "admin"}>
              <button type="button" class="button" onClick={() => setBrowsing(true)}>
                <Icon name="folder" /> Browse
              </button>
            </Show>
          </div>
          <datalist id="recent-directories">
            <For each={recent()}>{(path) => <option value={path} />}</For>
          </datalist>
        </div>
        <Show when={shownProperties(settings()?.schema).length > 0}>
          <details class="more">
            <summary>Settings</summary>
            <Settings
              schema={settings()!.schema}
              values={{ ...settings()!.values, ...config() }}
              change={(name, value) => setConfig((known) => ({ ...known, [name]: value }))}
            />
          </details>
        </Show>
        <label class="field">
          <span>First message</span>
          <textarea
            rows={4}
            value={text()}
            placeholder="What should be done?"
            onInput={(event) => setText(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void submit(event);
            }}
          />
        </label>
        <div class="buttons">
          <button class="button primary" disabled={busy() || !agent() || props.host.connectivity().kind !== "online"}>
            {busy() ? "Starting…" : "Start session"}
          </button>
        </div>
      </form>
      <Show when={browsing()}>
        <DirectoryPicker
          host={props.host}
          start={directory() || "/"}
          close={() => setBrowsing(false)}
          choose={(path) => {
            setDirectory(path);
            setBrowsing(false);
          }}
        />
      </Show>
    </div>
  );
}
