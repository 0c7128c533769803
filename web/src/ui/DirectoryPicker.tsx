// Chooses a directory of the host.

import { For, Show, createResource, createSignal } from "solid-js";
import type { JSX } from "solid-js";
import type { ResourceListResult } from "../ahp/types.gen";
import { ROOT } from "../ahp/client";
import type { HostConnection } from "../app/host";
import { fileUri } from "../app/words";
import { Dialog } from "./Dialog";
import { Icon } from "./icons";

export function DirectoryPicker(props: {
  host: HostConnection;
  start: string;
  choose(path: string): void;
  close(): void;
}): JSX.Element {
  const [path, setPath] = createSignal(props.start.replace(/\/+$/, "") || "/");
  const [hidden, setHidden] = createSignal(false);
  const [entries] = createResource(path, async (current) => {
    const listed = await props.host.client.request<ResourceListResult>("resourceList", {
      channel: ROOT,
      uri: fileUri(current),
    });
    return listed.entries
      .filter((entry) => entry.type === "directory")
      .map((entry) => entry.name)
      .sort((a, b) => a.localeCompare(b));
  });
  const shown = () => (entries.error ? [] : (entries() ?? []).filter((name) => hidden() || !name.startsWith(".")));
  const parent = () => path().replace(/\/[^/]+$/, "") || "/";
  return (
    <Dialog open={true} close={props.close} title="Choose a directory">
      <p class="path">{path()}</p>
      <ul class="directories" aria-label="Directories" aria-busy={entries.loading}>
        <Show when={path() !== "/"}>
          <li>
            <button onClick={() => setPath(parent())}>
              <Icon name="back" /> Up
            </button>
          </li>
        </Show>
        <For each={shown()}>
          {(name) => (
            <li>
              <button onClick={() => setPath(`${path() === "/" ? "" : path()}/${name}`)}>
                <Icon name="folder" /> {name}
              </button>
            </li>
          )}
        </For>
      </ul>
      <Show when={entries.error as unknown}>
        <p class="error">This directory cannot be listed: {String((entries.error as Error).message)}</p>
      </Show>
      <Show when={!entries.loading && !entries.error && shown().length === 0}>
        <p class="muted">There are no directories here.</p>
      </Show>
      <div class="buttons">
        <label class="check">
          <input type="checkbox" checked={hidden()} onChange={(event) => setHidden(event.currentTarget.checked)} />
          Hidden
        </label>
        <button class="button primary" onClick={() => props.choose(path())}>
          Use this directory
        </button>
      </div>
    </Dialog>
  );
}
