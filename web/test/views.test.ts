// Views of changes: which are shown, and what their operations take.

import { expect, test } from "vitest";
import type { Changeset, ChangesetOperation } from "../src/ahp/types.gen";
import { inputOf, operationsFor, viewsOf } from "../src/ui/changes/views";

const changeset = (uriTemplate: string, review = false): Changeset => ({
  label: uriTemplate,
  uriTemplate,
  changeKind: "session",
  ...(review && { capabilities: { review: {} } }),
});
const state = {
  changesets: [changeset("s/session", true), changeset("s/turns/{originalTurnId}/{modifiedTurnId}"), changeset("s/turn/{turnId}")],
};

test("views of a session need no variables", () => {
  expect(viewsOf(state, undefined).map(({ uri, canReview }) => [uri, canReview])).toEqual([["s/session", true]]);
  expect(viewsOf(undefined, "t")).toEqual([]);
});

test("the view of a turn has its id, encoded", () => {
  expect(viewsOf(state, "a/b").map(({ uri }) => uri)).toEqual(["s/session", "s/turn/a%2Fb"]);
});

test("operations stand where their scope allows", () => {
  const operation = (id: string, scopes: ChangesetOperation["scopes"]): ChangesetOperation => ({
    id,
    label: id,
    scopes,
    status: "idle",
  });
  const all = [operation("discard", ["changeset", "resource", "range"]), operation("commit", ["changeset"])];
  expect(operationsFor(all, "resource").map(({ id }) => id)).toEqual(["discard"]);
  expect(inputOf(all[1]!)?.name).toBe("message");
  expect(inputOf(all[0]!)).toBeUndefined();
});
