// `keyrack doctor`: checks settings, files and connections, and says how to fix each risk.
import { existsSync, statfsSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { requireConsistent } from "../../../config/consistency.ts";
import { isLoopback, plainConnections } from "../../../config/exposure.ts";
import { namedConfigFile } from "../../../config/load.ts";
import type { Settings } from "../../../config/settings.ts";
import type { Source } from "../../../store/offline/source.ts";
import { fileDistrust } from "../../../config/trusted-path.ts";
import { operatorFlags, operatorSettings, type OperatorOptions } from "../../operator.ts";
import { ExitError, escapeControls, printResult, table } from "../../ui/output.ts";
import { fail, ok, risk, skip, type Finding } from "./findings.ts";

const PRIVATE_FILES = ["master.key", "bootstrap.token", "keyrack.db", "keyrack.toml"];
const FREE_MIN = 1024 ** 3;
/** Files that the server opens beside its connections: database, log, modules. */
const OWN_FILES = 200;
const NAMED_NODES_MAX = 10;
const FULL_PART = 0.8;
const LOOPBACK_URL = /^https?:\/\/(127(\.\d{1,3}){3}|localhost|\[::1\])(:\d+)?(\/|$)/;

export function addDoctorCommand(program: Command): void {
  operatorFlags(
    program.command("doctor"),
    ["keyrack doctor", "keyrack doctor --data-dir /var/lib/keyrack --json"],
    "print only problems",
  )
    .description("Find risks in settings, files and connections, and how to fix them. Exit 4 if a check fails.")
    .action((options: OperatorOptions) => doctor(options));
}

function checkExposure(settings: Settings): Finding[] {
  const { host, tls_cert, trust_proxy, public_url, throttle, metrics, sign_up, meter_url } = settings;
  const open = !isLoopback(host);
  const found: Finding[] = [];
  if (open && !tls_cert && trust_proxy.length === 0)
    found.push(
      fail(
        `The server listens on ${host} without TLS: keys cross the network unencrypted.`,
        "Put a TLS proxy in front and set KEYRACK_TRUST_PROXY, or set KEYRACK_TLS_CERT and KEYRACK_TLS_KEY.",
      ),
    );
  if (public_url?.startsWith("http://") && !LOOPBACK_URL.test(public_url))
    found.push(risk("The public URL uses plain http.", "Serve it over https and update KEYRACK_PUBLIC_URL."));
  if (open && !public_url)
    found.push(risk("No public URL is set: links in mail use the listen address.", "Set KEYRACK_PUBLIC_URL."));
  if (sign_up === "open" && public_url && !LOOPBACK_URL.test(public_url))
    found.push(risk("Anyone can sign up at the public URL.", "Set KEYRACK_SIGN_UP=invite, unless that is intended."));
  if (!throttle)
    found.push(fail("Throttling is off: passwords can be guessed at full speed.", "Remove KEYRACK_THROTTLE=off."));
  if (metrics && !isLoopback(metrics.host))
    found.push(risk(`Metrics are reachable on ${metrics.host}.`, "Bind KEYRACK_METRICS to 127.0.0.1."));
  if (meter_url?.startsWith("http://") && !LOOPBACK_URL.test(meter_url))
    found.push(risk("Usage is pushed over plain http.", "Use an https URL as KEYRACK_METER_URL."));
  for (const { what, fix } of plainConnections(settings)) found.push(risk(what, fix));
  return found.length > 0 ? found : [ok("Network exposure is safe.")];
}

/** A settings file that was found, not named, is refused by every command instead. */
function checkNamedConfig(options: OperatorOptions): Finding[] {
  const file = namedConfigFile(process.env, options.config);
  const reason = file && fileDistrust(file);
  return reason
    ? [fail(`Others can change the settings file: ${reason}.`, "Give it and its folder to root or the server's user.")]
    : [];
}

function checkFiles(dir: string, settings: Settings): Finding[] {
  if (!existsSync(dir))
    return [fail(`The data dir ${dir} does not exist.`, "Start the server once, or set --data-dir.")];
  const found: Finding[] = [];
  if ((statSync(dir).mode & 0o077) !== 0)
    found.push(fail("The data dir is accessible to others.", `Run: chmod 700 ${dir}`));
  for (const name of PRIVATE_FILES) {
    const path = join(dir, name);
    if (existsSync(path) && (statSync(path).mode & 0o077) !== 0)
      found.push(fail(`${name} is readable by others.`, `Run: chmod 600 ${path}`));
  }
  if (!settings.master_key_file)
    found.push(
      risk(
        "The master key is stored in the data dir, next to the data it protects.",
        "Keep a copy elsewhere. Better: move it and set KEYRACK_MASTER_KEY_FILE.",
      ),
    );
  const { bavail, bsize } = statfsSync(dir);
  if (bavail * bsize < FREE_MIN)
    found.push(fail("Less than 1 GiB is free on the data dir's disk.", "Free up space: a full disk stops all writes."));
  return found.length > 0 ? found : [ok("The data dir is private and has free space.")];
}

/** The limit of this command, which is that of a server started the same way. */
function checkOpenFiles({ connections_max }: Settings): Finding[] {
  const report = process.report.getReport() as { userLimits?: { open_files?: { soft: number | "unlimited" } } };
  const limit = report.userLimits?.open_files?.soft ?? "unlimited";
  if (limit === "unlimited" || limit >= connections_max + OWN_FILES) return [];
  return [
    risk(
      `At most ${limit} files can be open, too few for ${connections_max} connections.`,
      `Raise the limit (ulimit -n, LimitNOFILE) to ${connections_max + OWN_FILES}, or lower KEYRACK_CONNECTIONS_MAX.`,
    ),
  ];
}

/** Settings that a start refuses. */
function checkConsistency(settings: Settings): Finding[] {
  try {
    requireConsistent(settings);
    return [];
  } catch (error) {
    return [fail((error as Error).message, "The server does not start with these settings.")];
  }
}

const SECRET_FIX = "The server needs this secret; no other user may read it.";

/**
 * Secrets outside of the data dir that a start reads. It refuses one that is missing or that others can read, except a
 * TLS key, and except a missing master key, see checkMasterKey.
 */
async function checkSecretFiles(settings: Settings): Promise<Finding[]> {
  const { readPrivateFile } = await import("../../../server/data-dir.ts");
  const { bootstrap, bootstrap_token_file, tls_key } = settings;
  const master_key_file = existsSync(resolve(settings.master_key_file)) ? settings.master_key_file : "";
  return [master_key_file, bootstrap ? bootstrap_token_file : "", tls_key].flatMap((file) => {
    try {
      if (file) readPrivateFile(resolve(file));
      return [];
    } catch (error) {
      const finding = file === tls_key ? risk : fail;
      return [finding((error as Error).message, SECRET_FIX)];
    }
  });
}

async function checkDatabase(options: OperatorOptions): Promise<Finding[]> {
  const { databaseOf, withOfflineSource } = await import("../audit/offline.ts");
  const { checkBackupRecord, checkBackups } = await import("./doctor-backups.ts");
  try {
    const target = await databaseOf(options);
    const backups = await checkBackups(operatorSettings(options), target);
    const { readAppliedMigrations } = await import("../../../store/schema/applied.ts");
    return await withOfflineSource(target, async (source) => {
      const applied = await readAppliedMigrations(source);
      const reached = ok(`The database is reachable, schema version ${applied.at(-1)?.version ?? 0}.`);
      const found = [
        ...backups,
        ...(await checkBackupRecord(source)),
        reached,
        ...(await checkMasterKey(source, options)),
        ...(await checkBootstrap(source, options)),
        ...(await checkNodes(source, options)),
      ];
      if (target.kind === "sqlite") return found;
      return [...found, await checkVersions(source), ...checkSharedLimits(operatorSettings(options))];
    });
  } catch (error) {
    return [fail((error as Error).message, "Check KEYRACK_DATABASE_URL and that the database is running.")];
  }
}

/** The first start creates a missing master key; later ones need the key that the database was set up with. */
async function checkMasterKey(source: Source, options: OperatorOptions): Promise<Finding[]> {
  const { readFactOf } = await import("../../../store/offline/contents.ts");
  const { master_key_file } = operatorSettings(options);
  if (!master_key_file || existsSync(resolve(master_key_file))) return [];
  const isNeeded = (await readFactOf(source, "master_key_fingerprint")) !== null;
  return isNeeded ? [fail(`${resolve(master_key_file)} cannot be read: ENOENT.`, SECRET_FIX)] : [];
}

/** Deleting the file does not end the token. A server without an owner is no risk: secret keys may be all it needs. */
async function checkBootstrap(source: Source, options: OperatorOptions): Promise<Finding[]> {
  const { readFactOf } = await import("../../../store/offline/contents.ts");
  const { hasOwner } = await import("../../../store/offline/doctor-facts.ts");
  const { bootstrap, bootstrap_token, bootstrap_token_file, data_dir } = operatorSettings(options);
  if (!bootstrap) return [];
  const isClaimed = await hasOwner(source);
  const found = isClaimed
    ? []
    : [ok("The server has no owner yet: keyrack setup link prints a link that creates one.")];
  if (existsSync(join(resolve(data_dir), "bootstrap.token"))) {
    const what = "The bootstrap token is active: anyone who can read bootstrap.token can create workspaces.";
    const first = isClaimed ? "" : "Create the owner first: off also disables setup links. ";
    found.push(risk(what, `${first}Once you need no more workspaces, set KEYRACK_BOOTSTRAP=off and delete the file.`));
  } else if (!bootstrap_token && !bootstrap_token_file && (await readFactOf(source, "bootstrap_token_hash")) !== null) {
    const fix = "Replace it (docs/operate.md), or end it with KEYRACK_BOOTSTRAP=off.";
    found.push(risk("The bootstrap token is active, although its file was deleted.", fix));
  }
  return found;
}

/** A verifier needs no more than the permission verify; a stolen key of more power could mint keys. */
async function checkNodes(source: Source, options: OperatorOptions): Promise<Finding[]> {
  const { nodesWithFullPower } = await import("../../../store/offline/doctor-facts.ts");
  const seenAfter = Date.now() - operatorSettings(options).node_live_ms;
  const nodes = await nodesWithFullPower(source, seenAfter, NAMED_NODES_MAX);
  if (nodes.length === 0) return [];
  const named = nodes.slice(0, NAMED_NODES_MAX).map(escapeControls).join(", ");
  return [
    risk(
      `Nodes use an unrestricted secret key: ${named}${nodes.length > NAMED_NODES_MAX ? " and more" : ""}.`,
      "Give them one that can only verify: keyrack secret-key create --env live --permissions verify",
    ),
  ];
}

/** How many processes there are is not known to each of them: a second one may start at any time. */
function checkSharedLimits({ redis_url }: Settings): Finding[] {
  if (redis_url !== null) return [];
  const what = "Rate limits are counted by each process: with several processes a limit admits as many times more.";
  return [risk(what, "Set KEYRACK_REDIS_URL before you start a second process.")];
}

async function checkVersions(source: Source): Promise<Finding> {
  const { READ_CONNECTED, toVersions } = await import("../../../store/postgres/connected-versions.ts");
  const versions = toVersions(await source.all<{ name: string }>(READ_CONNECTED, []));
  if (versions.length === 0) return ok("No process is connected to the database.");
  if (versions.length === 1) return ok(`Every connected process has version ${versions[0]}.`);
  return risk(
    `Processes of versions ${versions.join(", ")} are connected.`,
    "Finish the upgrade: replace the older ones.",
  );
}

async function checkInstance(dir: string): Promise<Finding> {
  const { callInstance } = await import("../../../server/operator-socket/client.ts");
  try {
    const reply = await callInstance(dir, "instance.show", {});
    const { pid, version } = (reply?.value ?? {}) as { pid?: number; version?: string };
    return ok(
      reply
        ? `An instance is running on this data dir (version ${version}, pid ${pid}).`
        : "No instance is running on this data dir.",
    );
  } catch (error) {
    return risk((error as Error).message, "Run this command as the user that runs the server.");
  }
}

/** Reports resources that one owner, or all owners together, have almost used up. */
async function checkShares(dir: string): Promise<Finding[]> {
  const { readTop } = await import("./top.ts");
  const top = await readTop(dir).catch(() => undefined); // reported by checkInstance
  const full = (top?.data ?? []).filter(
    ({ used, bound, share, owners }) =>
      (bound !== null && used > FULL_PART * bound) || (share !== null && (owners[0]?.used ?? 0) > FULL_PART * share),
  );
  return full.map(({ resource }) =>
    risk(
      `More than 80 % of a share or bound of "${resource}" is in use.`,
      `See by whom with keyrack top --by ${resource}, and docs/isolation.md.`,
    ),
  );
}

async function checkConnections(settings: Settings): Promise<Finding[]> {
  const { tryConnections } = await import("./connections.ts");
  const results = await tryConnections({ ...settings, database_url: { kind: "default" } });
  return results.map(({ name, problem }) =>
    problem
      ? fail(`Cannot reach ${name}: ${problem}.`, "Check its address and that it is running.")
      : ok(`${name[0]?.toUpperCase()}${name.slice(1)} is reachable.`),
  );
}

async function doctor(options: OperatorOptions): Promise<void> {
  const settings = operatorSettings(options);
  const dir = resolve(settings.data_dir);
  const findings: Finding[] = [
    ...checkNamedConfig(options),
    ...checkConsistency(settings),
    ...checkFiles(dir, settings),
    ...(await checkSecretFiles(settings)),
    ...checkExposure(settings),
    ...checkOpenFiles(settings),
    ...(existsSync(dir) ? await checkDatabase(options) : [skip("The database was not checked.")]),
    ...(await checkConnections(settings)),
    await checkInstance(dir),
    ...(await checkShares(dir)),
  ];
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
