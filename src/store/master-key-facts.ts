// Facts of the deployment that are derived from the master key: they mean nothing to another one.
import type { Fact } from "./schema/tables.ts";

export const FACTS_OF_MASTER_KEY = ["master_key_fingerprint", "settings"] as const satisfies readonly Fact[];
