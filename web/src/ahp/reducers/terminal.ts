// A terminal: its output, as one text or split into commands, and its process.

import type { StateAction, TerminalContentPart, TerminalState } from "../types.gen";
import { replaceAt } from "./lists";

export function reduceTerminal(state: TerminalState, action: StateAction): TerminalState {
  switch (action.type) {
    case "terminal/data":
      return { ...state, content: written(state.content, action.data) };
    case "terminal/resized":
      return { ...state, cols: action.cols, rows: action.rows };
    case "terminal/claimed":
      return { ...state, claim: action.claim };
    case "terminal/titleChanged":
      return { ...state, title: action.title };
    case "terminal/cwdChanged":
      return { ...state, cwd: action.cwd };
    case "terminal/exited":
      return { ...state, lifecycle: { status: "exited", exitCode: action.exitCode } };
    case "terminal/cleared":
      return { ...state, content: [] };
    case "terminal/commandDetectionAvailable":
      return { ...state, supportsCommandDetection: true };
    case "terminal/commandExecuted": {
      const { commandId, commandLine, timestamp } = action;
      const command = { type: "command" as const, commandId, commandLine, output: "", timestamp, isComplete: false };
      return { ...state, content: [...state.content, command], supportsCommandDetection: true };
    }
    case "terminal/commandFinished": {
      const index = state.content.findIndex((part) => part.type === "command" && part.commandId === action.commandId);
      const part = state.content[index];
      if (part?.type !== "command") return state;
      const { exitCode, durationMs } = action;
      return { ...state, content: replaceAt(state.content, index, { ...part, isComplete: true, exitCode, durationMs }) };
    }
    default:
      return state;
  }
}

function written(content: TerminalContentPart[], data: string): TerminalContentPart[] {
  const last = content.length - 1;
  const tail = content[last];
  if (tail?.type === "command" && !tail.isComplete) {
    return replaceAt(content, last, { ...tail, output: tail.output + data });
  }
  if (tail?.type === "unclassified") return replaceAt(content, last, { ...tail, value: tail.value + data });
  return [...content, { type: "unclassified", value: data }];
}
