// Reads errors of unknown type.
import { Failure } from "../kernel/errors.ts";
import type { Fields } from "./log.ts";

/** The code of an error of node or of a database; empty if it has none. */
export function codeOf(error: unknown): string {
  const { code } = (error ?? {}) as { code?: unknown };
  return typeof code === "string" ? code : "";
}

/** An error as fields of a log line. A failure is expected and has no stack. */
export function errorFields(error: unknown): Fields {
  const stack = error instanceof Error && !(error instanceof Failure) ? error.stack : undefined;
  return { error: String(error), stack };
}
