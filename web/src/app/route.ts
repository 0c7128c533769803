// The place in the app, kept in the fragment of the address so that it can be reloaded and bookmarked.

import { createSignal } from "solid-js";
import type { Uri } from "../ahp/types.gen";

export type Route =
  | { page: "list" }
  | { page: "new" }
  | { page: "waiting" }
  | { page: "session"; session: Uri; chat?: Uri; changes?: Changes };

/** The page of changes, of one turn if it is named. */
export interface Changes {
  turn?: string;
}

function parse(hash: string): Route {
  const [, page, first, second, tab, third] = hash.split("/");
  const text = (part: string | undefined) => {
    try {
      return part ? decodeURIComponent(part) : undefined;
    } catch {
      return undefined;
    }
  };
  const session = text(first);
  if (page === "s" && session) {
    return { page: "session", session, chat: text(second), ...(tab === "changes" && { changes: { turn: text(third) } }) };
  }
  if (page === "new" || page === "waiting") return { page };
  return { page: "list" };
}

export function href(route: Route): string {
  switch (route.page) {
    case "session": {
      const { session, chat, changes } = route;
      const parts = [session, ...(chat || changes ? [chat ?? ""] : [])].map(encodeURIComponent);
      if (changes) parts.push("changes", ...(changes.turn ? [encodeURIComponent(changes.turn)] : []));
      return `#/s/${parts.join("/")}`;
    }
    case "list":
      return "#/";
    default:
      return `#/${route.page}`;
  }
}

const [route, setRoute] = createSignal<Route>(parse(location.hash));
window.addEventListener("hashchange", () => setRoute(parse(location.hash)));

export { route };

export function go(to: Route): void {
  location.hash = href(to);
}
