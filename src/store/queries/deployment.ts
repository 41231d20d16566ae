// Named values of the deployment: the master key's fingerprint, the bootstrap token's hash, the audit origin …
import { deleteBy, rowBy, upsertRow } from "../engine/rows.ts";

export const readFact = rowBy("deployment", ["name"]);

/** Sets the value unless it is set: several processes may start at once on one database. */
export const claimFact = upsertRow("deployment", ["name"], [], ["value"]);

export const writeFact = upsertRow("deployment", ["name"], ["value"]);

export const dropFact = deleteBy("deployment", ["name"]);
