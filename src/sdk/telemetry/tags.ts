// Tags of a request's event: up to four names with short values, which the usage series group by. What is not a tag is
// left out: telemetry must not fail a request.

import { TAG_NAME, TAG_VALUE, TAGS_MAX } from "../../kernel/usage/event-bounds.ts";
import type { Context } from "../context.ts";
import { redactCredentials } from "./redact.ts";

export type Tags = Readonly<Record<string, string>>;

/** Returns the valid tags; null if there are none. */
export function cleanTags(tags: unknown): Tags | null {
  if (typeof tags !== "object" || tags === null) return null;
  const valid = Object.entries(tags).filter(isTag).slice(0, TAGS_MAX);
  return valid.length > 0 ? Object.fromEntries(valid) : null;
}

function isTag([name, value]: [string, unknown]): boolean {
  return (
    TAG_NAME.test(name) && typeof value === "string" && TAG_VALUE.test(value) && redactCredentials(value) === value
  );
}

/** The names that `cleanTags` leaves out. */
export function invalidTags(tags: Tags): string[] {
  const kept = cleanTags(tags) ?? {};
  return Object.keys(tags).filter((name) => !Object.hasOwn(kept, name));
}

/** Tags that a handler adds to the event of its request, by the context that it has. */
export class AddedTags {
  readonly #tags = new WeakMap<Context, Record<string, unknown>>();

  /** A skipped or unprotected route has no context and no event. */
  add(context: Context | null | undefined, tags: Tags): void {
    if (context) this.#tags.set(context, { ...this.#tags.get(context), ...tags });
  }

  of(context: Context | null): Record<string, unknown> | undefined {
    return context === null ? undefined : this.#tags.get(context);
  }
}
