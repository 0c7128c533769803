// The client over a host that is played by the test: handshakes, optimistic actions, lost connections.

import { afterEach, expect, test, vi } from "vitest";
import { AhpClient, Rejected } from "../src/ahp/client";
import type { ClientOptions } from "../src/ahp/client";
import type { Socket } from "../src/ahp/rpc";
import type { ChatState, StateAction } from "../src/ahp/types.gen";

const CHAT = "ahp-chat:/c";
const chat = (title: string, extra?: Partial<ChatState>): ChatState => ({
  resource: CHAT,
  title,
  status: 1,
  modifiedAt: "2026-01-01T00:00:00Z",
  turns: [],
  ...extra,
});

interface Sent {
  id?: number;
  method: string;
  params: Record<string, unknown>;
}

/** One socket, with the host's side of it in the hands of the test. */
class FakeSocket implements Socket {
  sent: Sent[] = [];
  closed = false;
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onclose: ((event: { code: number; reason: string }) => void) | null = null;

  send(text: string): void {
    this.sent.push(JSON.parse(text) as Sent);
  }

  close(): void {
    this.closed = true;
  }

  /** Waits for a message of the client. */
  async expectMessage(method: string): Promise<Sent> {
    return vi.waitFor(() => {
      const index = this.sent.findIndex((message) => message.method === method);
      if (index < 0) throw new Error(`no ${method} among ${this.sent.map((message) => message.method).join()}`);
      return this.sent.splice(index, 1)[0]!;
    });
  }

  async answer(method: string, result: unknown): Promise<Sent> {
    const request = await this.expectMessage(method);
    this.push({ id: request.id, result });
    return request;
  }

  async refuse(method: string, code: number): Promise<void> {
    const request = await this.expectMessage(method);
    this.push({ id: request.id, error: { code, message: "no" } });
  }

  action(serverSeq: number, action: StateAction, more?: object): void {
    this.push({ method: "action", params: { channel: CHAT, action, serverSeq, ...more } });
  }

  push(message: object): void {
    this.onmessage?.({ data: JSON.stringify({ jsonrpc: "2.0", ...message }) });
  }
}

const clients: AhpClient[] = [];
afterEach(() => clients.splice(0).forEach((client) => client.stop()));

function start(options?: Partial<ClientOptions>) {
  const sockets: FakeSocket[] = [];
  const client = new AhpClient({
    clientId: "me",
    clientInfo: { name: "test" },
    delays: [1],
    openSocket: () => {
      const socket = new FakeSocket();
      sockets.push(socket);
      queueMicrotask(() => socket.onopen?.());
      return socket;
    },
    ...options,
  });
  clients.push(client);
  client.start();
  const socket = (number: number) => vi.waitFor(() => sockets[number] ?? Promise.reject(new Error("no socket")));
  return { client, socket, sockets };
}

const snapshot = (state: ChatState, fromSeq: number) => ({ resource: CHAT, state, fromSeq });

async function online() {
  const started = start();
  void started.client.subscribe(CHAT);
  const socket = await started.socket(0);
  const snapshots = [snapshot(chat("one"), 5)];
  await socket.answer("initialize", { protocolVersion: "1.0.0", serverSeq: 5, snapshots });
  await vi.waitFor(() => expect(started.client.connectivity.kind).toBe("online"));
  return { ...started, first: socket };
}

const titleOf = (client: AhpClient) => client.state<ChatState>(CHAT)?.draft?.text;
const draft = (text: string): StateAction => ({
  type: "chat/draftChanged",
  draft: { text, origin: { kind: "user" } },
});

test("an action is shown at once and stays when the host confirms it", async () => {
  const { client, first } = await online();
  const done = client.dispatch(CHAT, draft("mine"));
  expect(titleOf(client)).toBe("mine");
  const { clientSeq } = (await first.expectMessage("dispatchAction")).params;
  first.action(6, draft("mine"), { origin: { clientId: "me", clientSeq } });
  await done;
  expect(titleOf(client)).toBe("mine");
  expect(client.mirror.confirmed(CHAT)).toMatchObject({ draft: { text: "mine" } });
});

test("a rejected action is undone and its reason is told", async () => {
  const { client, first } = await online();
  first.action(6, draft("theirs"));
  const done = client.dispatch(CHAT, draft("mine"));
  expect(titleOf(client)).toBe("mine");
  const { clientSeq } = (await first.expectMessage("dispatchAction")).params;
  first.action(7, draft("mine"), { origin: { clientId: "me", clientSeq }, rejectionReason: "no room" });
  await expect(done).rejects.toThrow(new Rejected("no room"));
  expect(titleOf(client)).toBe("theirs");
});

test("actions of others come before pending actions of this client", async () => {
  const { client, first } = await online();
  void client.dispatch(CHAT, draft("mine"));
  first.action(6, draft("theirs"));
  expect(titleOf(client)).toBe("mine");
  expect(client.mirror.confirmed(CHAT)).toMatchObject({ draft: { text: "theirs" } });
});

test("a lost connection is resumed with a replay", async () => {
  const { client, first, socket } = await online();
  first.action(6, draft("before"));
  first.onclose?.({ code: 1006, reason: "" });
  expect(client.connectivity.kind).toBe("offline");
  const second = await socket(1);
  const envelope = { channel: CHAT, action: draft("missed"), serverSeq: 7 };
  const request = await second.answer("reconnect", { type: "replay", actions: [envelope], missing: [] });
  expect(request.params).toMatchObject({ clientId: "me", lastSeenServerSeq: 6, subscriptions: [CHAT] });
  await vi.waitFor(() => expect(titleOf(client)).toBe("missed"));
});

test("snapshots of a reconnect replace the states, and a channel without one is gone", async () => {
  const { client, first, socket } = await online();
  first.onclose?.({ code: 1006, reason: "" });
  const second = await socket(1);
  const fresh = chat("one", { draft: { text: "fresh", origin: { kind: "user" } } });
  await second.answer("reconnect", { type: "snapshot", snapshots: [snapshot(fresh, 90)] });
  await vi.waitFor(() => expect(titleOf(client)).toBe("fresh"));
  second.onclose?.({ code: 1006, reason: "" });
  const third = await socket(2);
  await third.answer("reconnect", { type: "snapshot", snapshots: [] });
  await vi.waitFor(() => expect(client.state(CHAT)).toBeUndefined());
});

test("an action that the host did not get is sent again after a reconnect", async () => {
  const { client, first, socket } = await online();
  const turn: StateAction = {
    type: "chat/turnStarted",
    turnId: "t1",
    startedAt: "2026-01-01T00:00:00Z",
    message: { text: "hi", origin: { kind: "user" } },
  };
  const done = client.dispatch(CHAT, turn);
  await first.expectMessage("dispatchAction");
  first.onclose?.({ code: 1006, reason: "" });
  const second = await socket(1);
  await second.answer("reconnect", { type: "replay", actions: [], missing: [] });
  const again = await second.expectMessage("dispatchAction");
  expect(again.params).toMatchObject({ channel: CHAT, clientSeq: 1, action: { turnId: "t1" } });
  second.action(8, turn, { origin: { clientId: "me", clientSeq: 1 } });
  await done;
});

test("an action that the host has is not sent again", async () => {
  const { client, first, socket } = await online();
  const action: StateAction = {
    type: "chat/pendingMessageSet",
    kind: "queued",
    id: "m1",
    message: { text: "later", origin: { kind: "user" } },
  };
  const done = client.dispatch(CHAT, action);
  await first.expectMessage("dispatchAction");
  first.onclose?.({ code: 1006, reason: "" });
  const second = await socket(1);
  const state = chat("one", { queuedMessages: [{ id: "m1", message: { text: "later", origin: { kind: "user" } } }] });
  await second.answer("reconnect", { type: "snapshot", snapshots: [snapshot(state, 9)] });
  await done;
  await vi.waitFor(() => expect(client.connectivity.kind).toBe("online"));
  expect(second.sent.filter((message) => message.method === "dispatchAction")).toEqual([]);
});

test("an action that was dispatched without a connection is sent when there is one", async () => {
  const { client, first, socket } = await online();
  first.onclose?.({ code: 1006, reason: "" });
  void client.dispatch(CHAT, draft("offline"));
  expect(titleOf(client)).toBe("offline");
  const second = await socket(1);
  await second.answer("reconnect", { type: "replay", actions: [], missing: [] });
  expect((await second.expectMessage("dispatchAction")).params).toMatchObject({ action: { type: "chat/draftChanged" } });
});

test("a host that forgot the client is initialized anew on the same socket", async () => {
  const { client, first, socket } = await online();
  first.onclose?.({ code: 1001, reason: "" });
  const second = await socket(1);
  await second.refuse("reconnect", -32008);
  const restarted = chat("one", { draft: { text: "restarted", origin: { kind: "user" } } });
  const snapshots = [snapshot(restarted, 2)];
  await second.answer("initialize", { protocolVersion: "1.0.0", serverSeq: 2, snapshots });
  await vi.waitFor(() => expect(titleOf(client)).toBe("restarted"));
  // Numbers begin again below those of the former host.
  second.action(3, draft("next"));
  expect(titleOf(client)).toBe("next");
});

test("a host of another protocol version ends the attempts with a reason", async () => {
  const { client, socket, sockets } = start();
  await (await socket(0)).refuse("initialize", -32005);
  await vi.waitFor(() => expect(client.connectivity.kind).toBe("refused"));
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(sockets.length).toBe(1);
  expect(client.connectivity).toMatchObject({ reason: expect.stringContaining("AHP 1.0.0") as string });
});

test("a browser that was signed out makes no further attempt", async () => {
  const { client, sockets } = start({ mayConnect: () => Promise.resolve("signed-out") });
  await vi.waitFor(() => expect(client.connectivity).toEqual({ kind: "refused", reason: "signed-out" }));
  expect(sockets.length).toBe(0);
});

test("a replayed action that a snapshot already had is not applied twice", async () => {
  const { client, first } = await online();
  first.action(4, draft("old"));
  expect(titleOf(client)).toBeUndefined();
});

test("a channel that is gone settles its pending actions and says so", async () => {
  const { client, first, socket } = await online();
  const gone: string[] = [];
  client.listen({ gone: (channel) => gone.push(channel) });
  const done = client.dispatch(CHAT, draft("mine"));
  first.onclose?.({ code: 1006, reason: "" });
  const second = await socket(1);
  await second.answer("reconnect", { type: "replay", actions: [], missing: [CHAT] });
  await expect(done).rejects.toThrow(Rejected);
  expect(gone).toEqual([CHAT]);
});

test("a removed session takes its chats along", async () => {
  const { client, socket } = start();
  const session = "ahp-session:/s";
  void client.subscribe(session);
  void client.subscribe(CHAT);
  const first = await socket(0);
  const state = { lifecycle: "ready", chats: [{ resource: CHAT }] };
  const snapshots = [snapshot(chat("one"), 5), { resource: session, state, fromSeq: 5 }];
  await first.answer("initialize", { protocolVersion: "1.0.0", serverSeq: 5, snapshots });
  await vi.waitFor(() => expect(client.connectivity.kind).toBe("online"));
  const done = client.dispatch(CHAT, draft("mine"));
  first.push({ method: "root/sessionRemoved", params: { channel: "ahp-root://", session } });
  await expect(done).rejects.toThrow("deleted");
  expect(client.state(session)).toBeUndefined();
});

test("a link to a session that does not exist is reported, not awaited", async () => {
  const { client, socket } = start();
  const gone: string[] = [];
  client.listen({ gone: (_, reason) => gone.push(reason) });
  void client.subscribe(CHAT);
  const first = await socket(0);
  await first.answer("initialize", { protocolVersion: "1.0.0", serverSeq: 5, snapshots: [] });
  await first.refuse("subscribe", -32008);
  await vi.waitFor(() => expect(gone).toEqual(["no"]));
});

test("a socket that does not open is given up", async () => {
  vi.useFakeTimers();
  try {
    const sockets: FakeSocket[] = [];
    const client = new AhpClient({
      clientId: "me",
      clientInfo: { name: "test" },
      openSocket: () => {
        sockets.push(new FakeSocket());
        return sockets.at(-1)!;
      },
    });
    clients.push(client);
    client.start();
    await vi.advanceTimersByTimeAsync(9_000);
    expect(sockets.length).toBe(1);
    await vi.advanceTimersByTimeAsync(2_000);
    expect(sockets[0]!.closed).toBe(true);
    expect(sockets.length).toBe(2);
  } finally {
    vi.useRealTimers();
  }
});

test("a check replaces an attempt that hangs, and the former socket has no effect", async () => {
  vi.useFakeTimers();
  try {
    const sockets: FakeSocket[] = [];
    const client = new AhpClient({
      clientId: "me",
      clientInfo: { name: "test" },
      openSocket: () => {
        sockets.push(new FakeSocket());
        return sockets.at(-1)!;
      },
    });
    clients.push(client);
    client.start();
    await vi.advanceTimersByTimeAsync(4_000);
    client.check();
    await vi.advanceTimersByTimeAsync(10);
    expect(sockets.length).toBe(2);
    sockets[0]!.onclose?.({ code: 1006, reason: "" });
    expect(client.connectivity.kind).toBe("connecting");
  } finally {
    vi.useRealTimers();
  }
});
