// A session: its chats, clients, settings, open requests and customizations.

import { SessionStatus } from "../types.gen";
import type {
  ChatSummary,
  PartialChatSummary,
  SessionInputRequest,
  SessionState,
  SessionWorkingDirectoryReplacedAction,
  StateAction,
} from "../types.gen";
import { changeServer, customizationId, removeCustomization, toggle } from "./customizations";
import { addOnce, removeAt, removeOnce, replaceAt, upsert } from "./lists";
import { withFlag, withInputNeeded } from "./status";

export function reduceSession(state: SessionState, action: StateAction): SessionState {
  switch (action.type) {
    case "session/ready":
      return { ...state, lifecycle: "ready" };
    case "session/creationFailed":
      return { ...state, lifecycle: "failed", creationError: action.error };
    case "session/chatAdded": {
      const { summary } = action;
      return { ...state, chats: upsert(state.chats, summary, (chat) => chat.resource === summary.resource) };
    }
    case "session/chatRemoved": {
      const index = state.chats.findIndex((chat) => chat.resource === action.chat);
      if (index < 0) return state;
      const defaultChat = state.defaultChat === action.chat ? undefined : state.defaultChat;
      return { ...state, chats: removeAt(state.chats, index), defaultChat };
    }
    case "session/chatUpdated": {
      const index = state.chats.findIndex((chat) => chat.resource === action.chat);
      const chat = state.chats[index];
      return chat ? { ...state, chats: replaceAt(state.chats, index, updated(chat, action.changes)) } : state;
    }
    case "session/defaultChatChanged":
      return { ...state, defaultChat: action.defaultChat };
    case "session/chatsReordered":
      return reorderChats(state, action.chats);
    case "session/titleChanged":
      return { ...state, title: action.title };
    case "session/isReadChanged":
      return { ...state, status: withFlag(state.status, SessionStatus.IsRead, action.isRead) };
    case "session/isArchivedChanged":
      return { ...state, status: withFlag(state.status, SessionStatus.IsArchived, action.isArchived) };
    case "session/activityChanged":
      return { ...state, activity: action.activity };
    case "session/changesetsChanged":
      return { ...state, changesets: action.changesets };
    case "session/configChanged": {
      if (!state.config) return state;
      const values = action.replace ? action.config : { ...state.config.values, ...action.config };
      return { ...state, config: { ...state.config, values } };
    }
    case "session/metaChanged":
      return { ...state, _meta: action._meta };
    case "session/serverToolsChanged":
      return { ...state, serverTools: action.tools };
    case "session/activeClientSet": {
      const { activeClient } = action;
      const same = (client: { clientId: string }) => client.clientId === activeClient.clientId;
      return { ...state, activeClients: upsert(state.activeClients, activeClient, same) };
    }
    case "session/activeClientRemoved": {
      const index = state.activeClients.findIndex((client) => client.clientId === action.clientId);
      return index < 0 ? state : { ...state, activeClients: removeAt(state.activeClients, index) };
    }
    case "session/workingDirectorySet": {
      const workingDirectories = addOnce(state.workingDirectories, action.directory);
      return workingDirectories ? { ...state, workingDirectories } : state;
    }
    case "session/workingDirectoryRemoved": {
      const workingDirectories = removeOnce(state.workingDirectories, action.directory);
      return workingDirectories ? { ...state, workingDirectories } : state;
    }
    case "session/workingDirectoryReplaced":
      return replaceDirectory(state, action);
    case "session/inputNeededSet": {
      const id = requestId(action.request);
      if (id === undefined) return state;
      return withRequests(state, upsert(state.inputNeeded, action.request, (other) => requestId(other) === id));
    }
    case "session/inputNeededRemoved": {
      const index = state.inputNeeded?.findIndex((request) => requestId(request) === action.id) ?? -1;
      return state.inputNeeded && index >= 0 ? withRequests(state, removeAt(state.inputNeeded, index)) : state;
    }
    case "session/customizationsChanged":
      return { ...state, customizations: action.customizations };
    case "session/customizationToggled":
      return toggle(state, action.id, action.enablement);
    case "session/customizationUpdated": {
      const { customization } = action;
      const id = customizationId(customization);
      // The published reducer creates the list before it looks at the id.
      if (id === undefined) return { ...state, customizations: state.customizations ?? [] };
      const same = (other: typeof customization) => customizationId(other) === id;
      return { ...state, customizations: upsert(state.customizations, customization, same) };
    }
    case "session/customizationRemoved":
      return removeCustomization(state, action.id);
    case "session/mcpServerStateChanged":
      return changeServer(state, action.id, (server) => ({ ...server, state: action.state, channel: action.channel }));
    case "session/mcpServerStartRequested":
      return changeServer(state, action.id, (server) => ({ ...server, state: { kind: "starting" }, channel: undefined }));
    case "session/mcpServerStopRequested":
      return changeServer(state, action.id, (server) => ({ ...server, state: { kind: "stopped" }, channel: undefined }));
    case "session/mcpServerBackgroundRequested":
      return changeServer(state, action.id, (server) =>
        server.state.kind === "starting" && server.state.blocking === true
          ? { ...server, state: { ...server.state, blocking: false } }
          : server,
      );
    default:
      return state;
  }
}

function updated(chat: ChatSummary, changes: PartialChatSummary): ChatSummary {
  // The identity of a chat, and whether it can be moved or written to, are not changed this way.
  const { title, status, activity, modifiedAt, changes: counts, origin, workingDirectories } = changes;
  return {
    ...chat,
    ...(title != null && { title }),
    ...(status != null && { status }),
    ...(activity != null && { activity }),
    ...(modifiedAt != null && { modifiedAt }),
    ...(counts != null && { changes: counts }),
    ...(origin != null && { origin }),
    ...(workingDirectories != null && { workingDirectories }),
  };
}

function reorderChats(state: SessionState, order: readonly string[]): SessionState {
  const { chats } = state;
  if (order.length !== chats.length || new Set(order).size !== chats.length) return state;
  if (order.every((resource, index) => resource === chats[index]?.resource)) return state;
  const reordered: ChatSummary[] = [];
  for (const resource of order) {
    const chat = chats.find((other) => other.resource === resource);
    if (!chat) return state;
    reordered.push(chat);
  }
  return { ...state, chats: reordered };
}

function replaceDirectory(state: SessionState, action: SessionWorkingDirectoryReplacedAction): SessionState {
  const list = state.workingDirectories;
  const index = list?.indexOf(action.directory) ?? -1;
  if (!list || index < 0) return state;
  if (list.slice(0, index).includes(action.replacement)) {
    return { ...state, workingDirectories: removeAt(list, index) };
  }
  const workingDirectories = list.flatMap((directory, at) => {
    if (at === index) return [action.replacement];
    return directory === action.replacement ? [] : [directory];
  });
  return { ...state, workingDirectories };
}

function requestId(request: SessionInputRequest): string | undefined {
  return typeof request.id === "string" ? request.id : undefined;
}

function withRequests(state: SessionState, requests: SessionInputRequest[]): SessionState {
  const status = withInputNeeded(state.status, requests);
  return { ...state, inputNeeded: requests.length > 0 ? requests : undefined, status };
}
