// `keyrack doctor`: looks at settings, files and connections, and says of each risk how to mend it.
import { existsSync, statfsSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import type { Settings } from "../../../config/settings.ts";
import { operatorFlags, operatorSettings, show, type OperatorOptions } from "../../operator.ts";
import { ExitError, table } from "../../ui/output.ts";

type Level = "ok" | "risk" | "fail";
type Finding = { level: Level; what: string; mend: string | null };

const ok = (what: string): Finding => ({ level: "ok", what, mend: null });
const risk = (what: string, mend: string): Finding => ({ level: "risk", what, mend });
const fail = (what: string, mend: string): Finding => ({ level: "fail", what, mend });
const PRIVATE = ["master.key", "bootstrap.token", "keyrack.db", "keyrack.toml"];
const ROOM_MIN = 1024 ** 3;

export function addDoctorCommand(program: Command): void {
  operatorFlags(program.command("doctor"), ["keyrack doctor", "keyrack doctor --data-dir /var/lib/keyrack --json"])
    .description("Look for risks in settings, files and connections, each with its mend. Exit 4 when something fails.")
    .action((options: OperatorOptions) => doctor(options));
}

function exposure(settings: Settings): Finding[] {
  const { host, tls_cert, trust_proxy, public_url, throttle, metrics } = settings;
  const open = !/^(127\.|::1$|localhost$)/.test(host);
  const found: Finding[] = [];
  if (open && !tls_cert && trust_proxy.length === 0)
    found.push(
      fail(
        `It listens on ${host} without TLS: keys cross the network in the clear.`,
        "Put a TLS proxy in front and set KEYRACK_TRUST_PROXY, or set KEYRACK_TLS_CERT and KEYRACK_TLS_KEY.",
      ),
    );
  if (public_url?.startsWith("http://") && !/^http:\/\/(127\.|localhost|\[::1\])/.test(public_url))
    found.push(risk("The public URL is plain http.", "Serve it over https and set KEYRACK_PUBLIC_URL."));
  if (open && !public_url)
    found.push(risk("There is no public URL: links in mail name the listening address.", "Set KEYRACK_PUBLIC_URL."));
  if (!throttle)
    found.push(fail("Throttles are off: passwords can be guessed at full speed.", "Remove KEYRACK_THROTTLE=off."));
  if (metrics && !/^(127\.|::1$|localhost$)/.test(metrics.host))
    found.push(risk(`Metrics are open on ${metrics.host}.`, "Bind KEYRACK_METRICS to 127.0.0.1."));
  return found.length > 0 ? found : [ok("What it shows to the network is in order.")];
}

function files(dir: string, settings: Settings): Finding[] {
  if (!existsSync(dir))
    return [fail(`The data dir ${dir} is not there.`, "Start the server once, or name the right one with --data-dir.")];
  const found: Finding[] = [];
  if ((statSync(dir).mode & 0o077) !== 0) found.push(fail("Others may look into the data dir.", `chmod 700 ${dir}`));
  for (const name of PRIVATE) {
    const path = join(dir, name);
    if (existsSync(path) && (statSync(path).mode & 0o077) !== 0)
      found.push(fail(`${name} is readable by others.`, `chmod 600 ${path}`));
  }
  if (existsSync(join(dir, "bootstrap.token")) && settings.bootstrap)
    found.push(
      risk(
        "The bootstrap door is open: whoever reads bootstrap.token can make workspaces.",
        "When your workspaces exist: remove the file and set KEYRACK_BOOTSTRAP=off.",
      ),
    );
  if (!settings.master_key_file)
    found.push(
      risk(
        "The master key lies in the data dir, beside what it protects.",
        "Keep a copy elsewhere, and better: move it and set KEYRACK_MASTER_KEY_FILE.",
      ),
    );
  const { bavail, bsize } = statfsSync(dir);
  if (bavail * bsize < ROOM_MIN)
    found.push(fail("Less than 1 GiB is free on the data dir's disk.", "Make room: a full disk stops every change."));
  return found.length > 0 ? found : [ok("The data dir is private and has room.")];
}

function backups(dir: string, settings: Settings): Finding[] {
  const found: Finding[] = [];
  const place = settings.backup_dir ? resolve(settings.backup_dir) : join(dir, "backups");
  if (settings.backup_every === null)
    found.push(
      risk(
        "There are no backups on a schedule.",
        "Set KEYRACK_BACKUP_EVERY=24h, or run keyrack backup create from cron.",
      ),
    );
  else if (place.startsWith(dir))
    found.push(
      risk(
        "Backups go to the disk they protect.",
        "Set KEYRACK_BACKUP_DIR to another disk, or copy them away with KEYRACK_BACKUP_HOOK.",
      ),
    );
  if (settings.restore_test_every === null)
    found.push(risk("Backups are never tried.", "Set KEYRACK_RESTORE_TEST_EVERY=7d."));
  return found.length > 0 ? found : [ok("Backups are made, kept elsewhere and tried.")];
}

async function database(options: OperatorOptions): Promise<Finding> {
  const { databaseOf, withSource } = await import("../audit/offline.ts");
  try {
    const target = await databaseOf(options);
    const { appliedMigrations } = await import("../../../store/offline/chains.ts");
    const past = await withSource(target, appliedMigrations);
    return ok(`The database answers; its schema is ${past.at(-1)?.version ?? 0}.`);
  } catch (error) {
    return fail((error as Error).message, "Check KEYRACK_DATABASE_URL and that the database runs.");
  }
}

async function running(dir: string): Promise<Finding> {
  const { callInstance } = await import("../../../server/operator-socket/client.ts");
  try {
    const asked = await callInstance(dir, "instance.show", {});
    const { pid } = (asked?.value ?? {}) as { pid?: number };
    return asked ? ok(`An instance runs on this data dir (pid ${pid}).`) : ok("No instance runs on this data dir.");
  } catch (error) {
    return risk((error as Error).message, "Run this as the user that runs the server.");
  }
}

async function doctor(options: OperatorOptions): Promise<void> {
  const settings = operatorSettings(options);
  const dir = resolve(settings.data_dir);
  const { tryConnections } = await import("./connections.ts");
  const tried = await tryConnections({ ...settings, database_url: { kind: "default" } });
  const findings: Finding[] = [
    ...files(dir, settings),
    ...exposure(settings),
    ...backups(dir, settings),
    existsSync(dir) ? await database(options) : ok("The database was not looked at."),
    ...tried.map(({ what, problem }) =>
      problem
        ? fail(`${what} cannot be reached: ${problem}.`, "Check the address and that it runs.")
        : ok(`${what} answers.`),
    ),
    await running(dir),
  ];
  const bad = findings.filter(({ level }) => level === "fail");
  const lines = findings.flatMap(({ level, what, mend }) => [[level, what], ...(mend ? [["", `→ ${mend}`]] : [])]);
  show(options, {
    json: { object: "doctor", ok: bad.length === 0, findings },
    quiet: findings
      .filter(({ level }) => level !== "ok")
      .map(({ what }) => what)
      .join("\n"),
    human: table(lines),
  });
  if (bad.length > 0) throw new ExitError(`${bad.length} of ${findings.length} checks failed.`, 4);
}
