// The root channel: agents, terminals, settings of the host.

import type { RootState, StateAction } from "../types.gen";

export function reduceRoot(state: RootState, action: StateAction): RootState {
  switch (action.type) {
    case "root/agentsChanged":
      return { ...state, agents: action.agents };
    case "root/activeSessionsChanged":
      return { ...state, activeSessions: action.activeSessions };
    case "root/terminalsChanged":
      return { ...state, terminals: action.terminals };
    case "root/configChanged": {
      if (!state.config) return state;
      const values = action.replace ? action.config : { ...state.config.values, ...action.config };
      return { ...state, config: { ...state.config, values } };
    }
    default:
      return state;
  }
}
