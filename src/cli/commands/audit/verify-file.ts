// `keyrack audit verify --file`: verifies an export, without a server or a database.
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { canonicalize } from "../../../kernel/audit/canonical.ts";
import type { HashedRow } from "../../../kernel/audit/chain.ts";
import { ExitError, fileError } from "../../ui/output.ts";
import { NotVerifiable, RowVerifier, type Checkpoints, type ChainVerdict } from "./verify-rows.ts";

/** Rejects a line longer than its canonical form: it hides something from a parser, such as a duplicate key. */
function parseRow(line: string): HashedRow | null {
  try {
    const row = JSON.parse(line) as HashedRow;
    return typeof row.workspace_id === "string" && canonicalize(row).length === line.length ? row : null;
  } catch {
    return null;
  }
}

export async function verifyFile(file: string, checkpoints: Checkpoints | undefined): Promise<ChainVerdict[]> {
  const verifier = new RowVerifier(checkpoints);
  let number = 0;
  try {
    const lines = createInterface({ input: createReadStream(file, "utf8"), crlfDelay: 0 });
    for await (const line of lines) {
      number++;
      const row = parseRow(line);
      if (!row) throw new NotVerifiable(`${file}: line ${number} is not an exported audit row.`, "malformed_row");
      verifier.take(row);
    }
  } catch (error) {
    if (error instanceof ExitError) throw error;
    throw fileError("read", file, error);
  }
  return verifier.verdicts();
}
