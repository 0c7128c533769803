// The views of changes that a session advertises, and the operations on them.

import type { Changeset, ChangesetOperation, ChangesetOperationScope, SessionState, Uri } from "../../ahp/types.gen";

export interface View {
  uri: Uri;
  label: string;
  description?: string;
  canReview: boolean;
}

function view(changeset: Changeset, uri: Uri): View {
  const { label, description, capabilities } = changeset;
  return { uri, label, description, canReview: capabilities?.review !== undefined };
}

/** Returns the views of a session, and the one of a turn if a turn is given. */
export function viewsOf(state: Pick<SessionState, "changesets"> | undefined, turn: string | undefined): View[] {
  const known = state?.changesets ?? [];
  const whole = known.filter(({ uriTemplate }) => !uriTemplate.includes("{")).map((entry) => view(entry, entry.uriTemplate));
  const ofTurns = known.find(({ uriTemplate }) => /^[^{]*\{turnId\}[^{]*$/.test(uriTemplate));
  if (turn === undefined || !ofTurns) return whole;
  return [...whole, view(ofTurns, ofTurns.uriTemplate.replace("{turnId}", encodeURIComponent(turn)))];
}

/** Returns the operations that can be used in a place. */
export function operationsFor(all: readonly ChangesetOperation[], scope: ChangesetOperationScope): ChangesetOperation[] {
  return all.filter((operation) => operation.scopes.includes(scope));
}

/** What an operation takes besides its target, as the host documents it. */
export function inputOf(operation: ChangesetOperation): { name: "message" | "name"; label: string } | undefined {
  if (operation.id === "commit") return { name: "message", label: "Message (empty: the agent suggests one)" };
  if (operation.id === "create-branch") return { name: "name", label: "Name of the branch (empty: from the title)" };
  return undefined;
}
