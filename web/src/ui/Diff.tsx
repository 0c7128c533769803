// The change of one file: added and removed lines with a little context.

import { For, Show, createResource, createSignal } from "solid-js";
import type { JSX } from "solid-js";
import type { FileEdit } from "../ahp/types.gen";
import { baseName, pathOf } from "../app/words";
import type { ChatContext } from "./ChatView";
import { readResource } from "./Content";
import { Icon } from "./icons";

interface Line {
  kind: "added" | "removed" | "same" | "gap";
  text: string;
}

/** Lines around a change. */
const CONTEXT = 3;
/** Most lines that are shown of one file. */
const MAX_LINES = 600;

export function fileName(edit: FileEdit): string {
  return pathOf(edit.after?.uri ?? edit.before?.uri ?? "");
}

function directoryOf(path: string): string {
  return path.slice(0, path.length - baseName(path).length).replace(/\/$/, "");
}

export function Diff(props: { context: ChatContext; edit: FileEdit; open?: boolean }): JSX.Element {
  const [open, setOpen] = createSignal(props.open === true);
  const uri = (which: "before" | "after") => props.edit[which]?.content?.uri ?? "";
  // A chat may show hundreds of edits: the contents are read when the user looks at one.
  const [lines] = createResource(
    () => (open() || !props.edit.diff ? `${uri("before")} ${uri("after")}` : undefined),
    async (sides) => {
      const read = (side: string | undefined) => (side ? readResource(props.context, side) : Promise.resolve(""));
      const [before, after] = await Promise.all(sides.split(" ").map(read));
      return diffLines(before ?? "", after ?? "");
    },
  );
  const count = (kind: "added" | "removed") => {
    const stated = props.edit.diff?.[kind];
    return stated ?? (lines.error ? 0 : (lines() ?? []).filter((line) => line.kind === kind).length);
  };
  return (
    <details class="diff" open={props.open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        <Icon name="file" />
        <span class="file-name" title={fileName(props.edit)}>
          {baseName(fileName(props.edit))}
          <small class="muted">{directoryOf(fileName(props.edit))}</small>
        </span>
        <span class="plus">+{count("added")}</span>
        <span class="minus">−{count("removed")}</span>
      </summary>
      <Show when={!lines.loading} fallback={<p class="muted">Loading…</p>}>
        <Show when={!lines.error} fallback={<p class="muted">The contents of this change are not there any more.</p>}>
          <div class="lines" role="group" aria-label={`Changes of ${fileName(props.edit)}`} tabindex="0">
            <For each={(lines() ?? []).slice(0, MAX_LINES)}>
              {(line) => (
                <div data-kind={line.kind}>
                  <span class="sr-only">{line.kind === "added" ? "added: " : line.kind === "removed" ? "removed: " : ""}</span>
                  {line.text || " "}
                </div>
              )}
            </For>
            <Show when={(lines() ?? []).length > MAX_LINES}>
              <div data-kind="gap">{(lines() ?? []).length - MAX_LINES} more lines</div>
            </Show>
          </div>
        </Show>
      </Show>
    </details>
  );
}

async function diffLines(before: string, after: string): Promise<Line[]> {
  const { structuredPatch } = await import("diff");
  const patch = structuredPatch("", "", before, after, "", "", { context: CONTEXT, timeout: 2000 });
  if (!patch) return [{ kind: "gap", text: "The change is too large to be shown." }];
  return patch.hunks.flatMap((hunk, index): Line[] => {
    const lines = hunk.lines
      .filter((line) => !line.startsWith("\\"))
      .map((line): Line => {
        const kind = line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "same";
        return { kind, text: line.slice(1) };
      });
    return index > 0 || hunk.oldStart > 1 ? [{ kind: "gap", text: `Line ${hunk.newStart}` }, ...lines] : lines;
  });
}
