// A changeset: changed files with review marks, and the operations on them.

import type { ChangesetState, StateAction } from "../types.gen";
import { removeAt, replaceAt, upsert } from "./lists";

export function reduceChangeset(state: ChangesetState, action: StateAction): ChangesetState {
  switch (action.type) {
    case "changeset/statusChanged": {
      const error = action.status === "error" ? action.error : undefined;
      return { ...state, status: action.status, error };
    }
    case "changeset/fileSet":
      return { ...state, files: upsert(state.files, action.file, (file) => file.id === action.file.id) };
    case "changeset/fileRemoved": {
      const index = state.files.findIndex((file) => file.id === action.fileId);
      return index < 0 ? state : { ...state, files: removeAt(state.files, index) };
    }
    case "changeset/filesReviewChanged": {
      const { reviewed } = action;
      const changes = (file: { id: string; reviewed?: boolean }) =>
        action.files.includes(file.id) && file.reviewed !== reviewed;
      if (!state.files.some(changes)) return state;
      return { ...state, files: state.files.map((file) => (changes(file) ? { ...file, reviewed } : file)) };
    }
    case "changeset/contentChanged":
      return { ...state, files: action.files, operations: action.operations ?? state.operations };
    case "changeset/operationsChanged":
      return { ...state, operations: action.operations };
    case "changeset/operationStatusChanged": {
      const index = state.operations?.findIndex((operation) => operation.id === action.operationId) ?? -1;
      const operation = state.operations?.[index];
      if (!state.operations || !operation) return state;
      const error = action.status === "error" ? action.error : undefined;
      return { ...state, operations: replaceAt(state.operations, index, { ...operation, status: action.status, error }) };
    }
    case "changeset/cleared":
      return state.files.length === 0 ? state : { ...state, files: [] };
    default:
      return state;
  }
}
