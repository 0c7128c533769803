// Changes to immutable lists. Every function returns the same list if nothing changed.

/** Replaces the first item that matches, or appends the item. */
export function upsert<T>(list: readonly T[] | undefined, item: T, same: (other: T) => boolean): T[] {
  const index = list?.findIndex(same) ?? -1;
  if (list === undefined) return [item];
  return index < 0 ? [...list, item] : replaceAt(list, index, item);
}

/** Replaces the item at an index. */
export function replaceAt<T>(list: readonly T[], index: number, item: T): T[] {
  const copy = list.slice();
  copy[index] = item;
  return copy;
}

/** Removes the item at an index. */
export function removeAt<T>(list: readonly T[], index: number): T[] {
  const copy = list.slice();
  copy.splice(index, 1);
  return copy;
}

/** Adds a value unless the list has it. Returns undefined if the list has it. */
export function addOnce<T>(list: readonly T[] | undefined, value: T): T[] | undefined {
  return list?.includes(value) ? undefined : [...(list ?? []), value];
}

/** Removes a value. Returns undefined if the list does not have it. */
export function removeOnce<T>(list: readonly T[] | undefined, value: T): T[] | undefined {
  const index = list?.indexOf(value) ?? -1;
  return list === undefined || index < 0 ? undefined : removeAt(list, index);
}
