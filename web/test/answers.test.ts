// Answers to questions of every kind: checks, and the form in which the host gets them.

import { expect, test } from "vitest";
import type { ChatInputQuestion } from "../src/ahp/types.gen";
import { answerOf, initialValue, problemOf } from "../src/ui/answers";

const options = [{ id: "a", label: "A" }, { id: "b", label: "B", recommended: true }];
const question = (more: object) => ({ id: "q", message: "?", required: true, ...more }) as ChatInputQuestion;

test("values are checked before they are sent", () => {
  const check = (more: object, value: object) => problemOf(question(more), value);
  expect(check({ kind: "text" }, {})).toMatch(/required/);
  expect(check({ kind: "text", required: false }, {})).toBeUndefined();
  expect(check({ kind: "text", min: 3 }, { text: "ab" })).toMatch(/at least 3/);
  expect(check({ kind: "text", max: 3 }, { text: "abcd" })).toMatch(/at most 3/);
  expect(check({ kind: "text", format: "email" }, { text: "nobody" })).toMatch(/e-mail/);
  expect(check({ kind: "text", format: "email" }, { text: "a@b.test" })).toBeUndefined();
  expect(check({ kind: "text", format: "uri" }, { text: "https://a.test" })).toBeUndefined();
  expect(check({ kind: "number" }, { text: "x" })).toMatch(/number/);
  expect(check({ kind: "integer" }, { text: "1.5" })).toMatch(/whole/);
  expect(check({ kind: "integer", min: 2, max: 4 }, { text: "5" })).toMatch(/4 or less/);
  expect(check({ kind: "integer", min: 2 }, { text: "1" })).toMatch(/2 or more/);
  expect(check({ kind: "boolean" }, {})).toMatch(/required/);
  expect(check({ kind: "boolean" }, { flag: false })).toBeUndefined();
  expect(check({ kind: "single-select", options }, {})).toMatch(/required/);
  expect(check({ kind: "multi-select", options, min: 2 }, { selected: ["a"] })).toMatch(/at least 2/);
  expect(check({ kind: "multi-select", options, max: 1 }, { selected: ["a", "b"] })).toMatch(/at most 1/);
});

test("answers have the kind of their question", () => {
  const answer = (more: object, value: object) => answerOf(question(more), value);
  const submitted = (value: object) => ({ state: "submitted", value });
  expect(answer({ kind: "text" }, { text: "x" })).toEqual(submitted({ kind: "text", value: "x" }));
  expect(answer({ kind: "integer" }, { text: "3" })).toEqual(submitted({ kind: "number", value: 3 }));
  expect(answer({ kind: "boolean" }, { flag: false })).toEqual(submitted({ kind: "boolean", value: false }));
  expect(answer({ kind: "single-select", options }, { selected: ["a"] })).toEqual(
    submitted({ kind: "selected", value: "a" }),
  );
  expect(answer({ kind: "multi-select", options }, { selected: ["a"], text: " more " })).toEqual(
    submitted({ kind: "selected-many", value: ["a"], freeformValues: ["more"] }),
  );
  expect(answer({ kind: "text", required: false }, { text: " " })).toEqual({ state: "skipped" });
});

test("fields start with an answer begun elsewhere, a default or a recommendation", () => {
  expect(initialValue(question({ kind: "integer", defaultValue: 4 }))).toEqual({ text: "4" });
  expect(initialValue(question({ kind: "single-select", options }))).toEqual({ selected: ["b"] });
  const begun = { q: { state: "draft" as const, value: { kind: "text" as const, value: "half" } } };
  expect(initialValue(question({ kind: "text" }), begun)).toEqual({ text: "half" });
});
