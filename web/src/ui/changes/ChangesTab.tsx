// Files that changed: in a session, in a turn, or not committed yet. With their differences, review marks and operations.

import { For, Show, createEffect, createMemo, createSignal } from "solid-js";
import type { Accessor, JSX } from "solid-js";
import type {
  ChangesetFile,
  ChangesetOperation,
  ChangesetState,
  InvokeChangesetOperationResult,
  SessionState,
  Uri,
} from "../../ahp/types.gen";
import type { HostConnection } from "../../app/host";
import { notify, report } from "../../app/notices";
import { plainText, plural } from "../../app/words";
import { Dialog } from "../Dialog";
import { Diff, fileName } from "../Diff";
import { Icon } from "../icons";
import { Inline } from "../Markdown";
import { inputOf, operationsFor, viewsOf } from "./views";
import "./changes.css";

/** An operation that the user has chosen and not confirmed yet. */
interface Chosen {
  operation: ChangesetOperation;
  file?: ChangesetFile;
}

export default function ChangesTab(props: {
  host: HostConnection;
  session: Uri;
  state: Accessor<SessionState | undefined>;
  turn: string | undefined;
}): JSX.Element {
  const views = createMemo(() => viewsOf(props.state(), props.turn));
  const [wanted, setWanted] = createSignal<Uri>();
  // A link to the changes of a turn shows these, until the user chooses another view.
  const ofTurn = createMemo(() => (props.turn === undefined ? undefined : views().at(-1)?.uri));
  createEffect(() => setWanted(ofTurn()));
  const view = createMemo(() => views().find((other) => other.uri === wanted()) ?? views()[0]);
  const uri = createMemo(() => view()?.uri);
  const changeset = props.host.use<ChangesetState>(uri);
  const canWrite = props.host.scope !== "view";
  const [chosen, setChosen] = createSignal<Chosen>();
  const [input, setInput] = createSignal("");
  const files = createMemo(() => new Map((changeset()?.files ?? []).map((file) => [file.id, file])));
  const ids = createMemo(() => [...files().keys()]);
  const operations = createMemo(() => changeset()?.operations ?? []);
  const sum = (kind: "added" | "removed") =>
    (changeset()?.files ?? []).reduce((total, file) => total + (file.edit.diff?.[kind] ?? 0), 0);
  const reviewed = () => (changeset()?.files ?? []).filter((file) => file.reviewed).length;

  const choose = (operation: ChangesetOperation, file?: ChangesetFile) => {
    setInput("");
    if (operation.confirmation || inputOf(operation)) setChosen({ operation, file });
    else void invoke(operation, file, "");
  };
  const invoke = async (operation: ChangesetOperation, file: ChangesetFile | undefined, text: string) => {
    const resource = file && (file.edit.after?.uri ?? file.edit.before?.uri);
    const field = inputOf(operation);
    try {
      const result = await props.host.client.request<InvokeChangesetOperationResult>("invokeChangesetOperation", {
        channel: uri(),
        operationId: operation.id,
        ...(resource && { target: { kind: "resource", resource } }),
        ...(field && text.trim() && { _meta: { [field.name]: text.trim() } }),
      });
      notify({ kind: "info", text: plainText(result.message) || `${operation.label}: done` });
    } catch (error) {
      report(operation.label)(error);
    }
  };
  const confirm = () => {
    const current = chosen();
    setChosen(undefined);
    if (current) void invoke(current.operation, current.file, input());
  };
  const mark = (id: string, isReviewed: boolean) => {
    const action = { type: "changeset/filesReviewChanged" as const, files: [id], reviewed: isReviewed };
    props.host.dispatch(uri() ?? "", action).catch(report("The review mark was not saved"));
  };

  return (
    <div class="changes">
      <Show when={views().length > 0} fallback={<NoViews />}>
        <div class="changes-head">
          <select aria-label="View" value={uri()} onChange={(event) => setWanted(event.currentTarget.value)}>
            <For each={views()}>
              {(other) => (
                <option value={other.uri} selected={other.uri === uri()}>
                  {other.label}
                </option>
              )}
            </For>
          </select>
          <span class="changes-sum" role="status">
            <Show when={changeset()?.status === "computing" || changeset()?.status === "recomputing"}>
              <span class="spinner" aria-hidden="true" /> Computing…
            </Show>
            <Show when={ids().length > 0}>
              {plural(ids().length, "file")} <span class="plus">+{sum("added")}</span>{" "}
              <span class="minus">−{sum("removed")}</span>
            </Show>
            <Show when={view()?.canReview && ids().length > 0}>
              <span class="muted">
                {reviewed()} of {ids().length} reviewed
              </span>
            </Show>
          </span>
          <Show when={canWrite}>
            <div class="buttons">
              <For each={operationsFor(operations(), "changeset")}>
                {(operation) => <Operation operation={operation} run={() => choose(operation)} />}
              </For>
            </div>
          </Show>
        </div>
        <Show when={view()?.description}>
          <p class="muted changes-about">{view()?.description}</p>
        </Show>
        <Show when={props.host.errors().get(uri() ?? "") ?? changeset()?.error?.message}>
          {(reason) => (
            <p class="error" role="alert">
              {reason()}
            </p>
          )}
        </Show>
        <ul class="changes-files" aria-label="Changed files">
          <For
            each={ids()}
            fallback={
              <Show when={changeset()?.status === "ready"}>
                <li class="empty muted">Nothing differs.</li>
              </Show>
            }
          >
            {(id) => (
              <Show when={files().get(id)}>
                {(file) => (
                  <li classList={{ reviewed: file().reviewed === true }}>
                    <div class="changes-file-tools">
                      <Show when={view()?.canReview && canWrite}>
                        <label title="Reviewed">
                          <input
                            type="checkbox"
                            checked={file().reviewed === true}
                            aria-label={`Reviewed: ${fileName(file().edit)}`}
                            onChange={(event) => mark(id, event.currentTarget.checked)}
                          />
                        </label>
                      </Show>
                      <span class="kind">{kindOf(file())}</span>
                      <Show when={canWrite}>
                        <For each={operationsFor(operations(), "resource")}>
                          {(operation) => (
                            <button
                              class="button quiet"
                              aria-label={`${operation.label}: ${fileName(file().edit)}`}
                              disabled={operation.status === "disabled" || operation.status === "running"}
                              onClick={() => choose(operation, file())}
                            >
                              {operation.label}
                            </button>
                          )}
                        </For>
                      </Show>
                    </div>
                    <Diff context={{ ...reader, host: props.host, session: props.session }} edit={file().edit} />
                  </li>
                )}
              </Show>
            )}
          </For>
        </ul>
      </Show>
      <Dialog open={chosen() !== undefined} close={() => setChosen(undefined)} title={chosen()?.operation.label ?? ""}>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            confirm();
          }}
        >
          <Show when={chosen()?.file}>
            {(file) => (
              <p class="file-name">
                <Icon name="file" /> {fileName(file().edit)}
              </p>
            )}
          </Show>
          <Show when={chosen()?.operation.confirmation}>
            <p>
              <Inline text={chosen()?.operation.confirmation} />
            </p>
          </Show>
          <Show when={chosen() && inputOf(chosen()!.operation)}>
            {(field) => (
              <label class="field">
                <span>{field().label}</span>
                <textarea rows={field().name === "message" ? 4 : 1} value={input()} onInput={(event) => setInput(event.currentTarget.value)} />
              </label>
            )}
          </Show>
          <div class="buttons">
            <button type="button" class="button" onClick={() => setChosen(undefined)}>
              Cancel
            </button>
            <button class="button primary">{chosen()?.operation.label}</button>
          </div>
        </form>
      </Dialog>
    </div>
  );
}

/** Reading the sides of a file needs no chat. */
const reader = { chat: "", canWrite: false, canFork: false };

function kindOf(file: ChangesetFile): string {
  const { before, after } = file.edit;
  if (!before) return "created";
  if (!after) return "deleted";
  return before.uri === after.uri ? "changed" : "renamed";
}

function Operation(props: { operation: ChangesetOperation; run(): void }): JSX.Element {
  const isOff = () => props.operation.status === "disabled" || props.operation.status === "running";
  return (
    <button
      class="button"
      disabled={isOff()}
      title={plainText(props.operation.error?.message) || props.operation.description}
      onClick={() => props.run()}
    >
      <Show when={props.operation.status === "running"}>
        <span class="spinner" aria-hidden="true" />
      </Show>
      {props.operation.label}
    </button>
  );
}

function NoViews(): JSX.Element {
  return (
    <div class="home">
      <h2>No changes to show</h2>
      <p class="muted">This session has no directory whose changes the host can follow.</p>
    </div>
  );
}
