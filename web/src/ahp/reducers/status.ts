// The status bits of sessions and chats.

import { SessionStatus } from "../types.gen";
import type { ChatState, SessionInputRequest } from "../types.gen";

/** The bits that say what a session does; the others are flags. */
const ACTIVITY_MASK = 31;

export function withFlag(status: number, flag: number, set: boolean): number {
  return set ? status | flag : status & ~flag;
}

/** Returns the status of a session after its list of open requests changed. */
export function withInputNeeded(status: number, requests: readonly SessionInputRequest[]): number {
  // A tool that a client runs is work, not a question to the user.
  if (requests.some((request) => request.kind !== "toolClientExecution")) {
    return (status & ~ACTIVITY_MASK) | SessionStatus.InputNeeded;
  }
  return status & ~(SessionStatus.InputNeeded & ~SessionStatus.InProgress);
}

/** Returns the status of a chat as its state implies it, or with the given outcome of its last turn. */
export function chatStatus(chat: ChatState, outcome?: number): number {
  return (chat.status & ~ACTIVITY_MASK) | (outcome ?? activity(chat));
}

function activity(chat: ChatState): number {
  const parts = chat.activeTurn?.responseParts ?? [];
  const waits = parts.some((part) => {
    if (part.kind === "inputRequest") return part.response === undefined;
    if (part.kind !== "toolCall") return false;
    const { status } = part.toolCall;
    return status === "pending-confirmation" || status === "pending-result-confirmation" || status === "auth-required";
  });
  if (waits) return SessionStatus.InputNeeded;
  return chat.activeTurn ? SessionStatus.InProgress : SessionStatus.Idle;
}
