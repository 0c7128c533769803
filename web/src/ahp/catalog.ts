// The list of sessions, which follows the host.

import { ROOT } from "./client";
import type { AhpClient } from "./client";
import type {
  ListSessionsResult,
  SessionAddedParams,
  SessionRemovedParams,
  SessionSummary,
  SessionSummaryChangedParams,
  Uri,
} from "./types.gen";

/** Sessions per page of the list. */
const PAGE = 200;

export class Catalog {
  private sessions = new Map<Uri, SessionSummary>();
  private loading = 0;
  private isLoading = false;
  /** Notifications that came while the list was read, which may be newer than the list. */
  private meanwhile: [string, unknown][] = [];
  /** Whether the list was read since the connection was made. */
  loaded = false;

  constructor(
    private readonly client: AhpClient,
    private readonly changed: () => void,
  ) {
    client.listen({
      notification: (method, params) => {
        if (!this.apply(method, params)) return;
        if (this.isLoading) this.meanwhile.push([method, params]);
        this.changed();
      },
      // Notifications are not replayed.
      resynced: () => void this.load().catch(() => undefined),
    });
  }

  all(): SessionSummary[] {
    return [...this.sessions.values()];
  }

  get(session: Uri): SessionSummary | undefined {
    return this.sessions.get(session);
  }

  private async load(): Promise<void> {
    this.loading += 1;
    const mine = this.loading;
    this.meanwhile = [];
    this.isLoading = true;
    const found = new Map<Uri, SessionSummary>();
    let cursor: string | undefined;
    do {
      const page: ListSessionsResult = await this.client.request("listSessions", {
        channel: ROOT,
        limit: PAGE,
        ...(cursor !== undefined && { cursor }),
      });
      for (const summary of page.items) found.set(summary.resource, summary);
      cursor = page.nextCursor;
      // A newer load has begun.
      if (mine !== this.loading) return;
    } while (cursor !== undefined);
    this.sessions = found;
    for (const [method, params] of this.meanwhile) this.apply(method, params);
    this.meanwhile = [];
    this.isLoading = false;
    this.loaded = true;
    this.changed();
  }

  /** Applies a notification. Returns whether it was about the list. */
  private apply(method: string, params: unknown): boolean {
    switch (method) {
      case "root/sessionAdded": {
        const { summary } = params as SessionAddedParams;
        this.sessions.set(summary.resource, summary);
        return true;
      }
      case "root/sessionRemoved":
        this.sessions.delete((params as SessionRemovedParams).session);
        return true;
      case "root/sessionSummaryChanged": {
        const { session, changes } = params as SessionSummaryChangedParams;
        const known = this.sessions.get(session);
        const { resource: _, provider: __, createdAt: ___, ...rest } = changes;
        if (known) this.sessions.set(session, { ...known, ...rest });
        return true;
      }
      default:
        return false;
    }
  }
}
