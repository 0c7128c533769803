// One reducer for all channels: the type of an action names the kind of its channel.

import { reduceAnnotations } from "./reducers/annotations";
import { reduceChangeset } from "./reducers/changeset";
import { reduceChat } from "./reducers/chat";
import { reduceRoot } from "./reducers/root";
import { reduceSession } from "./reducers/session";
import { reduceTerminal } from "./reducers/terminal";
import type { SnapshotState, StateAction } from "./types.gen";

type AnyReducer = (state: never, action: StateAction) => SnapshotState;

const REDUCERS: Record<string, AnyReducer | undefined> = {
  root: reduceRoot,
  session: reduceSession,
  chat: reduceChat,
  terminal: reduceTerminal,
  changeset: reduceChangeset,
  annotations: reduceAnnotations,
};

/**
 * Applies an action to the state of its channel. States are never modified: parts that did not change are shared with
 * the state before, and a state in which nothing changed is returned itself.
 */
export function reduce<S extends SnapshotState>(state: S, action: StateAction): S {
  const kind = action.type.slice(0, action.type.indexOf("/"));
  const reducer = REDUCERS[kind];
  return reducer ? (reducer(state as never, action) as S) : state;
}
