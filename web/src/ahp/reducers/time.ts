// Timestamps of turns.

const RFC_3339 = /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:?\d\d)$/;

/** Adds a duration to a timestamp. Returns undefined if either is out of range or malformed. */
export function addMilliseconds(timestamp: string, duration: number): string | undefined {
  const start = RFC_3339.test(timestamp) ? Date.parse(timestamp) : Number.NaN;
  const end = new Date(start + duration);
  return Number.isNaN(end.getTime()) || end.getUTCFullYear() > 9999 ? undefined : end.toISOString();
}
