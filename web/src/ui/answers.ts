// Values of question fields: defaults, checks, and the answers that the host gets.

import type { ChatInputAnswer, ChatInputQuestion } from "../ahp/types.gen";

export interface FieldValue {
  text?: string;
  flag?: boolean;
  selected?: string[];
}

/** Returns the value that a field starts with: an answer that was begun elsewhere, a default, or a recommendation. */
export function initialValue(question: ChatInputQuestion, answers?: Record<string, ChatInputAnswer>): FieldValue {
  const known = answers?.[question.id];
  if (known && known.state !== "skipped") {
    const { value } = known;
    if (value.kind === "boolean") return { flag: value.value };
    if (value.kind === "selected") return { selected: [value.value], text: value.freeformValues?.[0] };
    if (value.kind === "selected-many") return { selected: value.value, text: value.freeformValues?.[0] };
    return { text: String(value.value) };
  }
  switch (question.kind) {
    case "boolean":
      return { flag: question.defaultValue };
    case "single-select": {
      const recommended = question.options.find((option) => option.recommended);
      return recommended ? { selected: [recommended.id] } : {};
    }
    case "multi-select":
      return { selected: question.options.filter((option) => option.recommended).map((option) => option.id) };
    default:
      return question.defaultValue === undefined ? {} : { text: String(question.defaultValue) };
  }
}

const FORMATS: Record<string, [RegExp, string]> = {
  email: [/^[^\s@]+@[^\s@]+\.[^\s@]+$/, "Enter an e-mail address."],
  uri: [/^[a-z][a-z\d+.-]*:\S+$/i, "Enter an address such as https://example.com."],
  date: [/^\d{4}-\d\d-\d\d$/, "Enter a date as YYYY-MM-DD."],
  "date-time": [/^\d{4}-\d\d-\d\dT\d\d:\d\d/, "Enter a date and a time."],
};

/** Returns why a value cannot be sent, if it cannot. */
export function problemOf(question: ChatInputQuestion, value: FieldValue): string | undefined {
  if (isEmpty(question, value)) return question.required ? "This answer is required." : undefined;
  switch (question.kind) {
    case "text": {
      const text = value.text ?? "";
      const { min, max, format } = question;
      if (min !== undefined && text.length < min) return `Enter at least ${min} characters.`;
      if (max !== undefined && text.length > max) return `Enter at most ${max} characters.`;
      const rule = FORMATS[format ?? ""];
      return rule && !rule[0].test(text) ? rule[1] : undefined;
    }
    case "number":
    case "integer": {
      const number = Number(value.text);
      const { min, max } = question;
      if (!Number.isFinite(number)) return "Enter a number.";
      if (question.kind === "integer" && !Number.isInteger(number)) return "Enter a whole number.";
      if (min !== undefined && number < min) return `Enter ${min} or more.`;
      return max !== undefined && number > max ? `Enter ${max} or less.` : undefined;
    }
    case "multi-select": {
      const count = (value.selected?.length ?? 0) + (value.text?.trim() ? 1 : 0);
      const { min, max } = question;
      if (min !== undefined && count < min) return `Choose at least ${min}.`;
      return max !== undefined && count > max ? `Choose at most ${max}.` : undefined;
    }
    default:
      return undefined;
  }
}

function isEmpty(question: ChatInputQuestion, value: FieldValue): boolean {
  const noText = !value.text?.trim();
  switch (question.kind) {
    case "boolean":
      return value.flag === undefined;
    case "single-select":
    case "multi-select":
      return (value.selected?.length ?? 0) === 0 && noText;
    default:
      return noText;
  }
}

export function answerOf(question: ChatInputQuestion, value: FieldValue): ChatInputAnswer {
  if (isEmpty(question, value)) return { state: "skipped" };
  const freeform = value.text?.trim() ? { freeformValues: [value.text.trim()] } : {};
  const selected = value.selected ?? [];
  switch (question.kind) {
    case "boolean":
      return { state: "submitted", value: { kind: "boolean", value: value.flag === true } };
    case "number":
    case "integer":
      return { state: "submitted", value: { kind: "number", value: Number(value.text) } };
    case "single-select":
      return { state: "submitted", value: { kind: "selected", value: selected[0] ?? "", ...freeform } };
    case "multi-select":
      return { state: "submitted", value: { kind: "selected-many", value: selected, ...freeform } };
    default:
      return { state: "submitted", value: { kind: "text", value: value.text ?? "" } };
  }
}
