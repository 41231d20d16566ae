// `keyrack audit verify --file`: an export, with no server at all.
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { canonicalize } from "../../../kernel/audit/canonical.ts";
import type { HashedRow } from "../../../kernel/audit/chain.ts";
import { LogCheck, type Signed, type Verdict } from "./verify-rows.ts";
import { ExitError } from "../../ui/output.ts";

/** A line longer than its canonical text hides something from a parser: a key given twice, digits that get lost. */
function readRow(line: string): HashedRow | null {
  try {
    const row = JSON.parse(line) as HashedRow;
    return typeof row.workspace_id === "string" && canonicalize(row).length === line.length ? row : null;
  } catch {
    return null;
  }
}

export async function verifyFile(file: string, signed: Signed | undefined): Promise<Verdict[]> {
  const check = new LogCheck(signed);
  let number = 0;
  try {
    const lines = createInterface({ input: createReadStream(file, "utf8"), crlfDelay: 0 });
    for await (const line of lines) {
      number++;
      const row = readRow(line);
      if (!row) throw new ExitError(`${file}: line ${number} is not an audit row as exported.`, 4);
      check.take(row);
    }
  } catch (error) {
    if (error instanceof ExitError) throw error;
    throw new ExitError(`${file} cannot be read: ${(error as NodeJS.ErrnoException).code}.`, 2);
  }
  return check.verdicts();
}
