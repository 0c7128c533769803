// The customizations of a session: containers with children, and MCP servers at both levels.

import type {
  ChildCustomization,
  Customization,
  CustomizationEnablement,
  McpServerCustomization,
  SessionState,
} from "../types.gen";
import { removeAt, replaceAt } from "./lists";

const CONTAINERS = new Set<string>(["plugin", "directory", "mcpServer"]);
const CHILDREN = new Set<string>(["agent", "skill", "prompt", "rule", "hook", "mcpServer"]);

/** Returns the id, or undefined for a kind of a newer version, which no action can name. */
export function customizationId(entry: Customization): string | undefined {
  return CONTAINERS.has(entry.type) ? entry.id : undefined;
}

function childId(entry: ChildCustomization): string | undefined {
  return CHILDREN.has(entry.type) ? entry.id : undefined;
}

function childrenOf(entry: Customization): ChildCustomization[] | undefined {
  return entry.type === "plugin" || entry.type === "directory" ? entry.children : undefined;
}

type Entry = Customization | ChildCustomization;

/**
 * Changes the entry with an id, wherever it is. The change returns undefined to remove the entry, and the entry itself
 * to leave it alone. Containers come before children.
 */
function change(
  list: readonly Customization[],
  id: string,
  update: (entry: Entry, isChild: boolean) => Entry | undefined,
): readonly Customization[] {
  const index = list.findIndex((entry) => customizationId(entry) === id);
  const container = list[index];
  if (container) {
    const next = update(container, false);
    if (next === container) return list;
    return next ? replaceAt(list, index, next as Customization) : removeAt(list, index);
  }
  for (const [at, entry] of list.entries()) {
    const children = childrenOf(entry);
    const position = children?.findIndex((child) => childId(child) === id) ?? -1;
    const child = children?.[position];
    if (!children || !child) continue;
    const next = update(child, true);
    if (next === child) return list;
    const changed = next ? replaceAt(children, position, next as ChildCustomization) : removeAt(children, position);
    return replaceAt(list, at, { ...entry, children: changed } as Customization);
  }
  return list;
}

function changeIn(state: SessionState, id: string, update: Parameters<typeof change>[2]): SessionState {
  if (!state.customizations) return state;
  const customizations = change(state.customizations, id, update);
  return customizations === state.customizations ? state : { ...state, customizations: [...customizations] };
}

/** Switches a customization on or off; the first entry of the enablement is the one that counts. */
export function toggle(state: SessionState, id: string, enablement: CustomizationEnablement[]): SessionState {
  const first = enablement[0];
  const enabled = first === undefined || (isKnown(first) && first.enabled);
  return changeIn(state, id, (entry, isChild) => {
    const hasProvenance = entry.type === "mcpServer" || (!isChild && entry.type === "plugin");
    if (hasProvenance) return { ...entry, enablement: enablement.length > 0 ? enablement : undefined } as Entry;
    return { ...entry, enabled } as Entry;
  });
}

function isKnown(enablement: CustomizationEnablement): boolean {
  return ["global", "workspace", "session"].includes(enablement.kind);
}

export function removeCustomization(state: SessionState, id: string): SessionState {
  return changeIn(state, id, () => undefined);
}

/** Changes an MCP server; an id of something else is ignored. */
export function changeServer(
  state: SessionState,
  id: string,
  update: (server: McpServerCustomization) => McpServerCustomization,
): SessionState {
  return changeIn(state, id, (entry) => (entry.type === "mcpServer" ? update(entry) : entry));
}
