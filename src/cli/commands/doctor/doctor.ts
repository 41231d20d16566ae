// `keyrack doctor`: checks settings, files and connections, and says how to fix each risk.
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { Command } from "commander";
import { namedConfigFile } from "../../../config/load.ts";
import type { Settings } from "../../../config/settings.ts";
import { fileDistrust } from "../../../config/trusted-path.ts";
import { operatorFlags, operatorSettings, refuseOtherPlaces, type OperatorOptions } from "../../operator.ts";
import { ExitError, printResult, table } from "../../ui/output.ts";
import { fail, ok, risk, skip, type Finding } from "./findings.ts";

const FULL_PART = 0.8;

export function addTo(program: Command): void {
  operatorFlags(
    program.command("doctor"),
    ["keyrack doctor", "keyrack doctor --data-dir /var/lib/keyrack --json"],
    "print only problems",
  )
    .description("Find risks in settings, files and connections, and how to fix them. Exit 4 if a check fails.")
    .action((options: OperatorOptions) => doctor(options));
}

/** A settings file that was found, not named, is refused by every command instead. */
function checkNamedConfig(options: OperatorOptions): Finding[] {
  const file = namedConfigFile(process.env, options.config);
  const reason = file && fileDistrust(file);
  return reason
    ? [fail(`Others can change the settings file: ${reason}.`, "Give it and its folder to root or the server's user.")]
    : [];
}

/** The process whose settings are checked: the instance on the data dir, or this command. */
type Subject = { settings: Settings; pid: number; finding: Finding };

async function findSubject(options: OperatorOptions): Promise<Subject> {
  const own = { settings: operatorSettings(options), pid: process.pid };
  const dir = resolve(own.settings.data_dir);
  const { callInstance } = await import("../../../server/operator-socket/client.ts");
  try {
    const reply = await callInstance(dir, "instance.settings", {});
    if (!reply) return { ...own, finding: ok("No instance is running on this data dir.") };
    const { version, pid, settings } = reply.value as { version: string; pid: number; settings: Settings };
    const running = `An instance is running on this data dir (version ${version}, pid ${pid}).`;
    return { settings, pid, finding: ok(`${running} Its settings were checked, not those of this shell.`) };
  } catch (error) {
    const what = `${(error as Error).message} The settings of this shell were checked instead.`;
    return {
      ...own,
      finding: risk(what, "Run this command as the server's user, with the server's version of keyrack."),
    };
  }
}

/** Reports resources that one owner, or all owners together, have almost used up. */
async function checkShares(dir: string): Promise<Finding[]> {
  const { readTop } = await import("../top.ts");
  const top = await readTop(dir).catch(() => undefined); // reported by findSubject
  const full = (top?.data ?? []).filter(
    ({ used, bound, share, owners }) =>
      (bound !== null && used > FULL_PART * bound) || (share !== null && (owners[0]?.used ?? 0) > FULL_PART * share),
  );
  return full.map(({ resource }) =>
    risk(
      `More than 80 % of a limit of "${resource}" is in use.`,
      `keyrack top --by ${resource} shows by whom; docs/isolation.md explains the limits.`,
    ),
  );
}

async function checkConnections(settings: Settings): Promise<Finding[]> {
  const { tryConnections } = await import("../../connections.ts");
  const results = await tryConnections({ ...settings, database_url: { kind: "default" } });
  return results.map(({ name, problem, fix }) =>
    problem
      ? fail(`Cannot use ${name}: ${problem}.`, fix)
      : ok(`${name[0]?.toUpperCase()}${name.slice(1)} is reachable.`),
  );
}

async function doctor(options: OperatorOptions): Promise<void> {
  const { settings, pid, finding } = await findSubject(options);
  if (pid !== process.pid) await refuseOtherPlaces(options, operatorSettings(options));
  const dir = resolve(settings.data_dir);
  const [{ checkSettings }, { checkDatabase }] = await Promise.all([import("./settings.ts"), import("./database.ts")]);
  const all: Finding[] = [
    finding,
    ...checkNamedConfig(options),
    ...(await checkSettings(settings, pid)),
    ...(existsSync(dir) ? await checkDatabase(settings) : [skip("The database was not checked.")]),
    ...(await checkConnections(settings)),
    ...(await checkShares(dir)),
  ];
  // A master key file that cannot be used is found in the settings and with the database.
  const findings = all.filter(({ what }, at) => all.findIndex((each) => each.what === what) === at);
  const failed = findings.filter(({ level }) => level === "fail");
  const lines = findings.flatMap(({ level, what, fix }) => [[level, what], ...(fix ? [["", `→ ${fix}`]] : [])]);
  printResult(options, {
    // The field name is part of the JSON output and does not change.
    json: {
      object: "doctor",
      ok: failed.length === 0,
      findings: findings.map(({ level, what, fix }) => ({ level, what, mend: fix })),
    },
    quiet: findings
      .filter(({ level }) => level === "risk" || level === "fail")
      .map(({ what }) => what)
      .join("\n"),
    human: table(lines),
  });
  if (failed.length > 0) throw new ExitError(`${failed.length} of ${findings.length} checks failed.`, 4);
}
