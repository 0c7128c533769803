// Messages that must not be lost: while an agent starts, and when two devices send at once.

import { expect, test } from "vitest";
import { Rejected } from "../src/ahp/client";
import type { ChatState, SessionState, StateAction } from "../src/ahp/types.gen";
import { send } from "../src/app/sending";
import type { Sender } from "../src/app/sending";

const SESSION = "ahp-session:/s";
const CHAT = "ahp-chat:/c";
const message = { text: "hello", origin: { kind: "user" as const } };

/** A host that answers each dispatch with the next of the given results. */
function fake(session: Partial<SessionState>, chat: Partial<ChatState>, ...results: (Error | undefined)[]) {
  const sent: StateAction[] = [];
  const states = new Map<string, unknown>([
    [SESSION, session],
    [CHAT, chat],
  ]);
  const host = {
    client: { state: (channel: string) => states.get(channel) },
    dispatch: (_: string, action: StateAction) => {
      sent.push(action);
      const result = results.shift();
      return result ? Promise.reject(result) : Promise.resolve();
    },
  } as unknown as Sender;
  return { host, sent, states };
}

const types = (sent: StateAction[]) => sent.map((action) => action.type);

test("a message starts a turn", async () => {
  const { host, sent } = fake({ lifecycle: "ready" }, {});
  await send(host, SESSION, CHAT, message);
  expect(types(sent)).toEqual(["chat/turnStarted"]);
});

test("a message for an agent that still starts is queued", async () => {
  const { host, sent } = fake({ lifecycle: "creating" }, {});
  await send(host, SESSION, CHAT, message);
  expect(sent).toMatchObject([{ type: "chat/pendingMessageSet", kind: "queued", message }]);
});

test("a message is queued if another device started a turn first", async () => {
  const { host, sent, states } = fake({ lifecycle: "ready" }, {}, new Rejected("a turn is running"));
  const sending = send(host, SESSION, CHAT, message);
  states.set(CHAT, { activeTurn: { id: "theirs" } });
  await sending;
  expect(types(sent)).toEqual(["chat/turnStarted", "chat/pendingMessageSet"]);
});

test("a message that the host refuses fails with the reason", async () => {
  const { host } = fake({ lifecycle: "ready" }, {}, new Rejected("the chat is read-only"));
  await expect(send(host, SESSION, CHAT, message)).rejects.toThrow("read-only");
});
