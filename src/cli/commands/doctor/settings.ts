// What `keyrack doctor` finds in the settings and in the files that they name, without a connection to anything.
import { existsSync, readFileSync, statfsSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { brokenRules } from "../../../config/consistency.ts";
import { isLoopback, plainConnections } from "../../../config/exposure.ts";
import type { Settings } from "../../../config/settings.ts";
import { fail, ok, risk, type Finding } from "./findings.ts";

const PRIVATE_FILES = ["master.key", "bootstrap.token", "keyrack.db", "keyrack.toml"];
const FREE_MIN = 1024 ** 3;
/** Files that the server opens beside its connections: database, log, modules. */
const OWN_FILES = 200;
const LOOPBACK_URL = /^https?:\/\/(127(\.\d{1,3}){3}|localhost|\[::1\])(:\d+)?(\/|$)/;
const SECRET_FIX = "The server needs this secret; no other user may read it.";

/** `pid` is that of the instance with these settings, or of this command. */
export async function checkSettings(settings: Settings, pid: number): Promise<Finding[]> {
  return [
    ...brokenRules(settings).map((rule) => fail(rule, "The server does not start with these settings.")),
    ...(await checkFiles(resolve(settings.data_dir), settings)),
    ...(await checkSecretFiles(settings)),
    ...checkExposure(settings),
    ...checkOpenFiles(settings, pid),
  ];
}

async function checkFiles(dir: string, settings: Settings): Promise<Finding[]> {
  const { masterKeyFile } = await import("../../../server/master-key.ts");
  if (!existsSync(dir))
    return [fail(`The data dir ${dir} does not exist.`, "Start the server once, or set --data-dir.")];
  const found: Finding[] = [];
  if ((statSync(dir).mode & 0o077) !== 0)
    found.push(fail("The data dir is accessible to others.", `Run: chmod 700 ${dir}`));
  for (const name of PRIVATE_FILES) {
    const path = join(dir, name);
    if (path === masterKeyFile(settings, dir)) continue; // see checkSecretFiles
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

/**
 * Secrets that a start reads. It refuses one that others can read, except a TLS key, and one that is missing, except
 * the master key, which the first start creates. checkMasterKey compares that with the database.
 */
async function checkSecretFiles(settings: Settings): Promise<Finding[]> {
  const { readPrivateFile } = await import("../../../server/data-dir.ts");
  const { findVault } = await import("../../../server/master-key.ts");
  const { bootstrap, bootstrap_token_file, data_dir, tls_key } = settings;
  return [
    ...findingsOf(fail, () => findVault(settings, resolve(data_dir))),
    ...findingsOf(fail, () => bootstrap && bootstrap_token_file && readPrivateFile(resolve(bootstrap_token_file))),
    ...findingsOf(risk, () => tls_key && readPrivateFile(resolve(tls_key))),
  ];
}

function findingsOf(finding: typeof risk, read: () => unknown): Finding[] {
  try {
    read();
    return [];
  } catch (error) {
    return [finding((error as Error).message, SECRET_FIX)];
  }
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

/** `pid` is that of the instance, or of this command, whose limit is that of a server started the same way. */
function checkOpenFiles({ connections_max }: Settings, pid: number): Finding[] {
  const limit = openFilesLimit(pid);
  if (limit >= connections_max + OWN_FILES) return [];
  return [
    risk(
      `The limit of open files is ${limit}, too low for ${connections_max} connections.`,
      `Raise the limit (ulimit -n, LimitNOFILE) to ${connections_max + OWN_FILES}, or lower KEYRACK_CONNECTIONS_MAX.`,
    ),
  ];
}

/** Infinity if there is no limit, or if the system does not say. */
function openFilesLimit(pid: number): number {
  try {
    const limits = readFileSync(`/proc/${pid}/limits`, "utf8");
    return Number(/^Max open files +(\d+)/m.exec(limits)?.[1] ?? Infinity);
  } catch {
    return Infinity;
  }
}
