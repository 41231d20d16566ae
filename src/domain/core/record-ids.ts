// Time-ordered record ids (UUIDv7) that strictly increase within this process.
import { randomBytes } from "node:crypto";
import { createIdGenerator } from "../../kernel/ids.ts";
import type { Clock } from "./clock.ts";

export function createRecordIdGenerator(clock: Pick<Clock, "now">): () => string {
  const next = createIdGenerator((n) => randomBytes(n));
  return () => next(clock.now());
}
