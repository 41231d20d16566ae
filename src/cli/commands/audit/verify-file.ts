// `keyrack audit verify --file`: verifies an export, without a server or a database.
import { createReadStream } from "node:fs";
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

/** Not readline's lines: those end at U+2028 and U+2029 too, which the texts of a row may contain. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let rest = "";
  for await (const chunk of createReadStream(file, "utf8") as AsyncIterable<string>) {
    const lines = (rest + chunk).split(/\r?\n/);
    rest = lines.pop() ?? "";
    yield* lines;
  }
  if (rest !== "") yield rest;
}

export async function verifyFile(file: string, checkpoints: Checkpoints | undefined): Promise<ChainVerdict[]> {
  const verifier = new RowVerifier(checkpoints);
  let number = 0;
  try {
    for await (const line of linesOf(file)) {
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
