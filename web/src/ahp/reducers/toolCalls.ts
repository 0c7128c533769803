// The life of a tool call: streaming, waiting, running, signing in, waiting with its result, done.

import type {
  ChatToolCallCompleteAction,
  ChatToolCallConfirmedAction,
  ChatToolCallReadyAction,
  StateAction,
  ToolCallCancelledState,
  ToolCallContributor,
  ToolCallPendingConfirmationState,
  ToolCallState,
} from "../types.gen";

/** Applies an action that names a tool call. Returns the same object if the action does not fit its state. */
export function reduceToolCall(call: ToolCallState, action: StateAction): ToolCallState {
  switch (action.type) {
    case "chat/toolCallDelta":
      if (call.status !== "streaming") return call;
      return {
        ...call,
        partialInput: action.content != null ? (call.partialInput ?? "") + action.content : call.partialInput,
        _meta: action._meta ?? call._meta,
        invocationMessage: action.invocationMessage ?? call.invocationMessage,
      };
    case "chat/toolCallReady":
      return ready(call, action);
    case "chat/toolCallConfirmed":
      return confirmed(call, action);
    case "chat/toolCallContentChanged":
      if (call.status !== "running") return call;
      return { ...call, _meta: action._meta ?? call._meta, content: action.content };
    case "chat/toolCallAuthRequired":
      if (call.status !== "running" || call.contributor?.kind !== "mcp") return call;
      return { ...call, status: "auth-required", _meta: action._meta ?? call._meta, auth: action.auth };
    case "chat/toolCallAuthResolved": {
      if (call.status !== "auth-required") return call;
      const { auth: _, ...rest } = call;
      return { ...rest, status: "running", _meta: action._meta ?? call._meta };
    }
    case "chat/toolCallComplete":
      return complete(call, action);
    case "chat/toolCallResultConfirmed": {
      if (call.status !== "pending-result-confirmation") return call;
      const _meta = action._meta ?? call._meta;
      if (action.approved) return { ...call, status: "completed", _meta };
      const { selectedOption, invocationMessage } = call;
      return { ...identity(call), status: "cancelled", _meta, invocationMessage, reason: "result-denied", selectedOption };
    }
    default:
      return call;
  }
}

/** Returns the call as it is when its turn ends before it does. */
export function skipped(call: ToolCallState): ToolCallState {
  switch (call.status) {
    case "completed":
    case "cancelled":
      return call;
    case "streaming":
    case "pending-confirmation":
    case "running":
    case "auth-required":
    case "pending-result-confirmation":
      return {
        ...identity(call),
        status: "cancelled",
        invocationMessage: call.invocationMessage ?? "",
        reason: "skipped",
      };
    default:
      return call;
  }
}

/** The members that a call has in every state. */
function identity(call: ToolCallState): Omit<ToolCallCancelledState, "status" | "invocationMessage" | "reason"> {
  const { toolCallId, toolName, displayName, intention, contributor, _meta } = call;
  const toolInput = call.status === "streaming" ? undefined : call.toolInput;
  return { toolCallId, toolName, displayName, intention, contributor, _meta, toolInput };
}

function ready(call: ToolCallState, action: ChatToolCallReadyAction): ToolCallState {
  if (call.status !== "streaming" && call.status !== "running" && call.status !== "pending-confirmation") return call;
  const known = identity(call);
  const base = {
    ...known,
    intention: action.intention ?? known.intention,
    toolInput: action.toolInput ?? known.toolInput,
    contributor: refined(known.contributor, action.contributor),
    _meta: action._meta ?? known._meta,
    invocationMessage: action.invocationMessage,
  };
  if (action.confirmed != null) return { ...base, status: "running", confirmed: action.confirmed };
  const before: Partial<ToolCallPendingConfirmationState> = call.status === "pending-confirmation" ? call : {};
  return {
    ...base,
    status: "pending-confirmation",
    confirmationTitle: action.confirmationTitle ?? before.confirmationTitle,
    riskAssessment: action.riskAssessment ?? before.riskAssessment,
    edits: action.edits ?? before.edits,
    editable: action.editable ?? before.editable,
    options: action.options ?? before.options,
  };
}

/** A call never changes hands: a client keeps its calls, and gets none that was not its own from the start. */
function refined(current?: ToolCallContributor, next?: ToolCallContributor): ToolCallContributor | undefined {
  if (!next) return current;
  if (current?.kind === "client") {
    return next.kind === "client" && next.clientId === current.clientId ? next : current;
  }
  return next.kind === "client" ? current : next;
}

function confirmed(call: ToolCallState, action: ChatToolCallConfirmedAction): ToolCallState {
  if (call.status !== "pending-confirmation") return call;
  const id = action.selectedOptionId;
  const selectedOption = id == null ? undefined : call.options?.find((option) => option.id === id);
  const { invocationMessage } = call;
  const base = { ...identity(call), _meta: action._meta ?? call._meta, invocationMessage, selectedOption };
  if (action.approved) {
    const edited = action.editedToolInput;
    const toolInput = edited != null && typeof call.toolInput === "string" ? edited : call.toolInput;
    return { ...base, status: "running", toolInput, confirmed: action.confirmed ?? "not-needed" };
  }
  const { reasonMessage, userSuggestion } = action;
  return { ...base, status: "cancelled", reason: action.reason ?? "denied", reasonMessage, userSuggestion };
}

function complete(call: ToolCallState, action: ChatToolCallCompleteAction): ToolCallState {
  const { result } = action;
  const fromSignIn = call.status === "auth-required";
  // A call that waits for a sign-in can only be given up.
  if (fromSignIn && result.success) return call;
  if (call.status !== "running" && call.status !== "pending-confirmation" && !fromSignIn) return call;
  const waited = call.status === "pending-confirmation";
  const base = {
    ...identity(call),
    _meta: action._meta ?? call._meta,
    invocationMessage: call.invocationMessage,
    success: result.success,
    pastTenseMessage: result.pastTenseMessage,
    content: result.content ?? (fromSignIn ? call.content : undefined),
    structuredContent: result.structuredContent,
    error: result.error,
    confirmed: waited ? ("not-needed" as const) : call.confirmed,
    selectedOption: waited ? undefined : call.selectedOption,
  };
  const reviewed = action.requiresResultConfirmation === true && !fromSignIn;
  return reviewed ? { ...base, status: "pending-result-confirmation" } : { ...base, status: "completed" };
}
