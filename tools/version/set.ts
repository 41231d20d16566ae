// npm run version:set -- X.Y.Z: gives every place the new version, and the unreleased changes their heading. Nothing is
// written unless everything can be.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { ExitError } from "../../src/cli/ui/output.ts";
import { runScript } from "../script.ts";
import { closeUnreleased } from "./changelog.ts";
import { versionsIn, withVersion } from "./places.ts";

const VERSION = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)$/;

function isHigher(next: string, current: string): boolean {
  const [a, b] = [next, current].map((version) => version.split(".").map(Number));
  const [x = 0, y = 0] = a?.map((part, i) => [part, b?.[i] ?? 0]).find(([part, other]) => part !== other) ?? [];
  return x > y;
}

const minorOf = (version: string): string => version.split(".").slice(0, 2).join(".");

/** A patch release has no migration: going back from it is starting the older binary. */
function assertNoMigration(root: string, current: string): void {
  const fixture = `test/fixtures/release-${current}.tar.gz`;
  if (!existsSync(join(root, fixture)))
    throw new ExitError(`${fixture}, which names the schema of ${current}, is missing`, 2);
  const facts = execFileSync("tar", ["-xzOf", join(root, fixture), "./facts.json"], { encoding: "utf8" });
  const { schema } = JSON.parse(facts) as { schema: number };
  const newest = Math.max(...readdirSync(join(root, "migrations")).map((name) => Number.parseInt(name, 10)));
  if (newest !== schema)
    throw new ExitError(
      `a patch release has no migration: ${current} has schema ${schema}, this is schema ${newest}`,
      2,
    );
}

/** Returns the files it changed. */
export function setVersion(root: string, version: string, date: string): string[] {
  if (!VERSION.test(version)) throw new ExitError("usage: npm run version:set -- X.Y.Z", 2);
  const found = versionsIn(root);
  const current = found[0]?.version ?? "none";
  const missing = found.find((place) => place.version === "none");
  if (missing) throw new ExitError(`${missing.file} holds no version where one is expected`, 2);
  if (!isHigher(version, current)) throw new ExitError(`${version} is not higher than ${current}`, 2);
  if (minorOf(version) === minorOf(current)) assertNoMigration(root, current);
  const changelog = closeUnreleased(readFileSync(join(root, "CHANGELOG.md"), "utf8"), version, date);
  const texts = withVersion(root, version).set("CHANGELOG.md", changelog);
  const changed = [...texts].filter(([file, text]) => readFileSync(join(root, file), "utf8") !== text);
  for (const [file, text] of changed) writeFileSync(join(root, file), text);
  return changed.map(([file]) => file);
}

if (process.argv[1] && resolve(process.argv[1]) === fileURLToPath(import.meta.url)) {
  await runScript(() => {
    const root = fileURLToPath(new URL("../..", import.meta.url));
    const [version = ""] = process.argv.slice(2);
    for (const file of setVersion(root, version, new Date().toISOString().slice(0, 10))) console.log(file);
  });
}
