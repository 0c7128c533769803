// A chat: its turns, the running turn, pending messages and the draft.

import { SessionStatus } from "../types.gen";
import type {
  ActiveTurn,
  BackgroundWork,
  ChatInputAnswer,
  ChatState,
  ChatTurnStartedAction,
  ErrorResponsePart,
  InputRequestResponsePart,
  ResponsePart,
  StateAction,
  Turn,
  TurnState,
} from "../types.gen";
import { addOnce, removeAt, removeOnce, replaceAt, upsert } from "./lists";
import { chatStatus, withFlag } from "./status";
import { reduceToolCall, skipped } from "./toolCalls";
import { addMilliseconds } from "./time";

export function reduceChat(state: ChatState, action: StateAction): ChatState {
  switch (action.type) {
    case "chat/turnStarted":
      return startTurn(state, action);
    case "chat/delta":
      return changePart(state, action.turnId, action.partId, (part) =>
        part.kind === "markdown" ? { ...part, content: part.content + action.content } : part,
      );
    case "chat/reasoning":
      return changePart(state, action.turnId, action.partId, (part) =>
        part.kind === "reasoning" ? { ...part, content: part.content + action.content } : part,
      );
    case "chat/responsePart":
      return action.part.kind === "error" ? state : append(state, action.turnId, action.part);
    case "chat/turnComplete":
      return endTurn(state, action.turnId, action.duration, "complete");
    case "chat/turnCancelled":
      return endTurn(state, action.turnId, action.duration, "cancelled");
    case "chat/error":
      return endTurn(state, action.turnId, action.duration, "error", action.part);
    case "chat/turnResume":
      return resumeTurn(state, action.turnId);
    case "chat/activityChanged":
      return { ...state, activity: action.activity };
    case "chat/backgroundWorkSet": {
      const id = workId(action.work);
      if (id === undefined) return state;
      const same = (other: BackgroundWork) => workId(other) === id;
      return { ...state, backgroundWork: upsert(state.backgroundWork, action.work, same) };
    }
    case "chat/backgroundWorkRemoved": {
      const index = state.backgroundWork?.findIndex((work) => workId(work) === action.id) ?? -1;
      if (!state.backgroundWork || index < 0) return state;
      return { ...state, backgroundWork: removeAt(state.backgroundWork, index) };
    }
    case "chat/movableChanged":
      return { ...state, movable: action.movable };
    case "chat/changesetsChanged":
      return { ...state, changesets: action.changesets };
    case "chat/canvasesChanged":
      return { ...state, canvases: action.canvases };
    case "chat/workingDirectorySet": {
      const workingDirectories = addOnce(state.workingDirectories, action.directory);
      return workingDirectories ? { ...state, workingDirectories } : state;
    }
    case "chat/workingDirectoryRemoved": {
      const workingDirectories = removeOnce(state.workingDirectories, action.directory);
      return workingDirectories ? { ...state, workingDirectories } : state;
    }
    case "chat/toolCallStart": {
      const { toolCallId, toolName, displayName, intention, contributor, _meta } = action;
      const toolCall = { status: "streaming" as const, toolCallId, toolName, displayName, intention, contributor, _meta };
      return append(state, action.turnId, { kind: "toolCall", toolCall });
    }
    case "chat/toolCallDelta":
    case "chat/toolCallContentChanged":
      return changeCall(state, action);
    case "chat/toolCallReady":
    case "chat/toolCallConfirmed":
    case "chat/toolCallComplete":
    case "chat/toolCallResultConfirmed":
    case "chat/toolCallAuthRequired":
    case "chat/toolCallAuthResolved":
      return withStatus(changeCall(state, action), findCall(state, action) >= 0);
    case "chat/usage":
      return withTurn(state, action.turnId, (turn) => ({ ...turn, usage: action.usage }));
    case "chat/truncated":
      return truncate(state, action.turnId);
    case "chat/turnsLoaded": {
      const known = new Set(state.turns.map((turn) => turn.id));
      const older = action.turns.filter((turn) => !known.has(turn.id));
      return { ...state, turns: [...older, ...state.turns], turnsNextCursor: action.turnsNextCursor };
    }
    case "chat/inputRequested": {
      if (!state.activeTurn) return state;
      const { request } = action;
      const next = changeRequest(state, request.id, (part) => ({
        ...part,
        request: { ...request, answers: request.answers ?? part.request.answers },
      }));
      const added = next === state ? append(state, state.activeTurn.id, { kind: "inputRequest", request }) : next;
      return { ...added, status: withFlag(chatStatus(added), SessionStatus.IsRead, false) };
    }
    case "chat/inputAnswerChanged":
      return changeRequest(state, action.requestId, (part) => {
        const answers = { ...part.request.answers };
        if (action.answer == null) delete answers[action.questionId];
        else answers[action.questionId] = action.answer;
        return { ...part, request: { ...part.request, answers: orNone(answers) } };
      });
    case "chat/inputCompleted": {
      const next = changeRequest(state, action.requestId, (part) => {
        const answers = orNone({ ...part.request.answers, ...action.answers });
        return { ...part, request: { ...part.request, answers }, response: action.response };
      });
      return withStatus(next, next !== state);
    }
    case "chat/pendingMessageSet": {
      const { id, message } = action;
      if (action.kind === "steering") return { ...state, steeringMessage: { id, message } };
      return { ...state, queuedMessages: upsert(state.queuedMessages, { id, message }, (other) => other.id === id) };
    }
    case "chat/pendingMessageRemoved":
      return removePending(state, action.kind, action.id);
    case "chat/queuedMessagesReordered":
      return reorderQueue(state, action.order);
    case "chat/draftChanged":
      return { ...state, draft: action.draft };
    case "chat/isReadChanged":
      return { ...state, status: withFlag(state.status, SessionStatus.IsRead, action.isRead) };
    case "chat/isArchivedChanged":
      return { ...state, status: withFlag(state.status, SessionStatus.IsArchived, action.isArchived) };
    default:
      return state;
  }
}

function withStatus(state: ChatState, applied: boolean): ChatState {
  const status = chatStatus(state);
  return applied && status !== state.status ? { ...state, status } : state;
}

function startTurn(state: ChatState, action: ChatTurnStartedAction): ChatState {
  const { turnId: id, startedAt, message, queuedMessageId } = action;
  const started: ChatState = { ...state, activeTurn: { id, startedAt, message, responseParts: [] }, modifiedAt: startedAt };
  started.status = withFlag(chatStatus(started), SessionStatus.IsRead, false);
  if (queuedMessageId != null) {
    if (started.steeringMessage?.id === queuedMessageId) started.steeringMessage = undefined;
    const queued = started.queuedMessages?.filter((other) => other.id !== queuedMessageId);
    started.queuedMessages = queued?.length ? queued : undefined;
  }
  return started;
}

function endTurn(
  state: ChatState,
  turnId: string,
  duration: number,
  outcome: TurnState,
  error?: ErrorResponsePart,
): ChatState {
  const active = state.activeTurn;
  if (active?.id !== turnId) return state;
  const elapsed = Math.max(0, duration);
  const modifiedAt = addMilliseconds(active.startedAt, elapsed);
  if (modifiedAt === undefined) return state;
  const responseParts = active.responseParts.map((part): ResponsePart => {
    if (part.kind !== "toolCall") return part;
    const toolCall = skipped(part.toolCall);
    return toolCall === part.toolCall ? part : { kind: "toolCall", toolCall };
  });
  if (error) responseParts.push({ ...error, kind: "error" });
  const { id, startedAt, message, usage } = active;
  const turn: Turn = { id, startedAt, duration: elapsed, message, responseParts, usage, state: outcome };
  const ended: ChatState = { ...state, activeTurn: undefined, turns: [...state.turns, turn], modifiedAt };
  return { ...ended, status: chatStatus(ended, outcome === "error" ? SessionStatus.Error : undefined) };
}

function resumeTurn(state: ChatState, turnId: string): ChatState {
  const turn = state.turns.at(-1);
  const last = turn?.responseParts.at(-1);
  const resumable = turn?.id === turnId && turn.state === "error" && last?.kind === "error" && last.resumable === true;
  if (state.activeTurn || !turn || !resumable) return state;
  const { id, message, responseParts, usage } = turn;
  const activeTurn: ActiveTurn = { id, startedAt: turn.startedAt ?? state.modifiedAt, message, responseParts, usage };
  const resumed: ChatState = { ...state, turns: state.turns.slice(0, -1), activeTurn };
  return { ...resumed, status: withFlag(chatStatus(resumed), SessionStatus.IsRead, false) };
}

function truncate(state: ChatState, turnId: string | undefined): ChatState {
  let next: ChatState;
  if (turnId == null) {
    next = { ...state, turns: [], turnsNextCursor: undefined, activeTurn: undefined };
  } else {
    const index = state.turns.findIndex((turn) => turn.id === turnId);
    if (index < 0) return state;
    next = { ...state, turns: state.turns.slice(0, index + 1), activeTurn: undefined };
  }
  return { ...next, status: chatStatus(next) };
}

function withTurn(state: ChatState, turnId: string, update: (turn: ActiveTurn) => ActiveTurn): ChatState {
  if (state.activeTurn?.id !== turnId) return state;
  const activeTurn = update(state.activeTurn);
  return activeTurn === state.activeTurn ? state : { ...state, activeTurn };
}

function append(state: ChatState, turnId: string, part: ResponsePart): ChatState {
  return withTurn(state, turnId, (turn) => ({ ...turn, responseParts: [...turn.responseParts, part] }));
}

function replacePart(turn: ActiveTurn, index: number, update: (part: ResponsePart) => ResponsePart): ActiveTurn {
  const part = turn.responseParts[index];
  if (!part) return turn;
  const next = update(part);
  return next === part ? turn : { ...turn, responseParts: replaceAt(turn.responseParts, index, next) };
}

function changePart(
  state: ChatState,
  turnId: string,
  partId: string,
  update: (part: ResponsePart) => ResponsePart,
): ChatState {
  return withTurn(state, turnId, (turn) =>
    replacePart(turn, turn.responseParts.findIndex((part) => idOf(part) === partId), update),
  );
}

function idOf(part: ResponsePart): string | undefined {
  switch (part.kind) {
    case "toolCall":
      return part.toolCall.toolCallId;
    case "markdown":
    case "reasoning":
      return part.id;
    default:
      return undefined;
  }
}

type CallAction = Extract<StateAction, { turnId: string; toolCallId: string }>;

/** Returns the index of the call among the parts of the running turn, or -1. */
function findCall(state: ChatState, { turnId, toolCallId }: CallAction): number {
  if (state.activeTurn?.id !== turnId) return -1;
  const isCall = (part: ResponsePart) => part.kind === "toolCall" && part.toolCall.toolCallId === toolCallId;
  return state.activeTurn.responseParts.findIndex(isCall);
}

function changeCall(state: ChatState, action: CallAction): ChatState {
  const index = findCall(state, action);
  return withTurn(state, action.turnId, (turn) =>
    replacePart(turn, index, (part) => {
      if (part.kind !== "toolCall") return part;
      const toolCall = reduceToolCall(part.toolCall, action);
      return toolCall === part.toolCall ? part : { kind: "toolCall", toolCall };
    }),
  );
}

/** Changes the open question with an id; answered ones are history. */
function changeRequest(
  state: ChatState,
  id: string,
  update: (part: InputRequestResponsePart) => InputRequestResponsePart,
): ChatState {
  const turn = state.activeTurn;
  if (!turn) return state;
  const isOpen = (part: ResponsePart) => part.kind === "inputRequest" && part.response == null && part.request.id === id;
  const next = replacePart(turn, turn.responseParts.findIndex(isOpen), (part) =>
    part.kind === "inputRequest" ? update(part) : part,
  );
  return next === turn ? state : { ...state, activeTurn: next };
}

function orNone(answers: Record<string, ChatInputAnswer>): Record<string, ChatInputAnswer> | undefined {
  return Object.keys(answers).length > 0 ? answers : undefined;
}

function removePending(state: ChatState, kind: "steering" | "queued", id: string): ChatState {
  if (kind === "steering") {
    return state.steeringMessage?.id === id ? { ...state, steeringMessage: undefined } : state;
  }
  const queued = state.queuedMessages?.filter((message) => message.id !== id);
  if (!queued || queued.length === state.queuedMessages?.length) return state;
  return { ...state, queuedMessages: queued.length > 0 ? queued : undefined };
}

/** Messages that the order does not name follow by id, as in the published reducer. */
function reorderQueue(state: ChatState, order: readonly string[]): ChatState {
  if (!state.queuedMessages) return state;
  const left = new Map(state.queuedMessages.map((message) => [message.id, message]));
  const reordered = order.flatMap((id) => {
    const message = left.get(id);
    left.delete(id);
    return message ? [message] : [];
  });
  const rest = [...left.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  return { ...state, queuedMessages: [...reordered, ...rest] };
}

function workId(work: BackgroundWork): string | undefined {
  return typeof work.id === "string" ? work.id : undefined;
}
