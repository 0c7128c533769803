// Texts for dates, places and tokens.

import type { StringOrMarkdown, Uri, UsageInfo } from "../ahp/types.gen";

export function plainText(text: StringOrMarkdown | undefined): string {
  if (text === undefined) return "";
  return typeof text === "string" ? text : text.markdown;
}

/** Returns the path of a file URI, or the URI itself. */
export function pathOf(uri: Uri): string {
  try {
    const url = new URL(uri);
    return url.protocol === "file:" ? decodeURIComponent(url.pathname) : uri;
  } catch {
    return uri;
  }
}

export function fileUri(path: string): Uri {
  return `file://${path.split("/").map(encodeURIComponent).join("/")}`;
}

export function baseName(path: string): string {
  return path.replace(/\/+$/, "").split("/").at(-1) || path;
}

const STEPS: [string, number][] = [
  ["min", 60],
  ["h", 3600],
  ["d", 86_400],
];

/** Returns how long ago something was, in as little room as possible. */
export function ago(timestamp: string, now: number): string {
  const seconds = (now - Date.parse(timestamp)) / 1000;
  if (Number.isNaN(seconds)) return "";
  if (seconds < 45) return "now";
  if (seconds > 6 * 86_400) {
    return new Date(timestamp).toLocaleDateString(undefined, { month: "short", day: "numeric" });
  }
  const [unit, length] = STEPS.findLast(([, step]) => seconds >= step) ?? STEPS[0]!;
  return `${Math.max(1, Math.round(seconds / length))} ${unit}`;
}

export function duration(ms: number): string {
  if (ms < 1000) return "<1 s";
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  return minutes < 60 ? `${minutes} min ${seconds % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export function usageText(usage: UsageInfo): string {
  const parts: string[] = [];
  if (usage.inputTokens !== undefined) parts.push(`${COMPACT.format(usage.inputTokens)} in`);
  if (usage.outputTokens !== undefined) parts.push(`${COMPACT.format(usage.outputTokens)} out`);
  return parts.length > 0 ? `${parts.join(", ")} tokens` : "";
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
