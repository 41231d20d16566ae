// What `keyrack doctor` finds in the database: its record of backups, the master key, the bootstrap token, nodes, and
// the versions that are connected to it.
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Settings } from "../../../config/settings.ts";
import type { Source } from "../../../store/offline/source.ts";
import { escapeControls } from "../../ui/output.ts";
import { fail, ok, risk, type Finding } from "./findings.ts";

const NAMED_NODES_MAX = 10;
/** The exit code for a database or server that cannot be reached. */
const UNREACHABLE = 3;
const UNREACHABLE_FIX = "Check KEYRACK_DATABASE_URL and that the database is running.";

export async function checkDatabase(settings: Settings): Promise<Finding[]> {
  const { databaseOf, withOfflineSource } = await import("../audit/offline.ts");
  const { checkBackupRecord, checkBackups } = await import("./backups.ts");
  try {
    const target = await databaseOf(settings);
    const backups = await checkBackups(settings, target);
    const { readAppliedMigrations } = await import("../../../store/schema/applied.ts");
    return await withOfflineSource(target, async (source) => {
      if (target.kind === "postgres") await assertServable(target.url);
      const applied = await readAppliedMigrations(source);
      const reached = ok(`The database is reachable, schema version ${applied.at(-1)?.version ?? 0}.`);
      const found = [
        ...backups,
        ...(await checkBackupRecord(source)),
        reached,
        ...(await checkMasterKey(source, settings)),
        ...(await checkBootstrap(source, settings)),
        ...(await checkNodes(source, settings)),
      ];
      if (target.kind === "sqlite") return found;
      return [...found, await checkVersions(source), ...checkSharedLimits(settings)];
    });
  } catch (error) {
    const { message, exitCode = UNREACHABLE } = error as Error & { exitCode?: number };
    // Other messages, such as that of a full disk, say themselves what to do.
    const isToName = exitCode === UNREACHABLE && !message.includes("KEYRACK_DATABASE_URL");
    return [fail(message, isToName ? UNREACHABLE_FIX : null)];
  }
}

/** Throws where a server would not start: on a standby, beside a command that needs the database alone, read-only. */
async function assertServable(url: string): Promise<void> {
  const { assertUsable, assertWritable } = await import("../../../store/postgres/maintenance.ts");
  const { withPostgres } = await import("../../../store/postgres/client.ts");
  await withPostgres(url, assertWritable, { check: assertUsable });
}

/** The first start creates a missing master key; later ones need the key that the database was set up with. */
async function checkMasterKey(source: Source, settings: Settings): Promise<Finding[]> {
  const { readFactOf } = await import("../../../store/offline/contents.ts");
  const { requireMasterKey } = await import("../../../server/master-key.ts");
  const fingerprint = await readFactOf(source, "master_key_fingerprint");
  try {
    if (fingerprint !== null) requireMasterKey(settings, resolve(settings.data_dir), fingerprint);
    return [];
  } catch (error) {
    return [fail((error as Error).message, "Without it the server does not start.")];
  }
}

/** Deleting the file does not end the token. A server without an owner is no risk: secret keys may be all it needs. */
async function checkBootstrap(source: Source, settings: Settings): Promise<Finding[]> {
  const { bootstrap, bootstrap_token, bootstrap_token_file, data_dir } = settings;
  const { readFactOf } = await import("../../../store/offline/contents.ts");
  const { hasOwner } = await import("../../../store/offline/doctor-facts.ts");
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

/** A node needs no more than the permission verify; a stolen key of more power could mint keys. */
async function checkNodes(source: Source, { node_live_ms }: Settings): Promise<Finding[]> {
  const { nodesWithFullPower } = await import("../../../store/offline/doctor-facts.ts");
  const seenAfter = Date.now() - node_live_ms;
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
  const what = "Each process counts rate limits on its own: n processes admit up to n times as many requests.";
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
