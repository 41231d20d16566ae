// Lists for sentences.

/** "live", "live or test", "open, invite or closed". */
export function alternatives(values: readonly string[]): string {
  const last = values.at(-1) ?? "";
  return values.length < 2 ? last : `${values.slice(0, -1).join(", ")} or ${last}`;
}
