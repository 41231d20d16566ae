// The last good policy in a file, so that a vendor can restart while the control plane is unreachable. In bytes:
//
//   "keyrack-policy-3 " hmac (64 hex) LF | one line of JSON (`Header`) LF | tenant ids | rows
//
// The HMAC under the secret key covers the first word and everything after its line, so a torn, edited or foreign file
// is rejected. Earlier libraries wrote "keyrack-policy-1", whose HMAC leaves out the first word, and
// "keyrack-policy-2". They must not read this format: they would ignore restrictions of a profile that they do not
// know. Their files are read here, as policies fetched with the capabilities that they name.
// Written to a temporary file (0600) and renamed; changes are coalesced to at most one write per second.

import { MINUTE_MS } from "../../kernel/durations.ts";
import { KeyTable, PROFILE, ROW, TENANT } from "../../kernel/policy/key-table.ts";
import { readFormats } from "../../kernel/policy/loader.ts";
import { Policy } from "../../kernel/policy/policy.ts";
import { hmacHexParts } from "../hashing.ts";
import type { PolicyState } from "./policy-state.ts";
import type { Settings } from "../options.ts";
import type { Runtime } from "../client.ts";
import { shouldLog } from "../backoff.ts";
import { builtinModule } from "../builtins.ts";
import { randomHex } from "../runtime.ts";

const MAGIC = "keyrack-policy-3";
const EARLIER_MAGIC = "keyrack-policy-2";
const FIRST_MAGIC = "keyrack-policy-1";
const FIRST_LINE_BYTES = MAGIC.length + 1 + 64 + 1;
const WRITE_GAP_MS = 1000;
const REFRESH_MAX_MS = 10 * MINUTE_MS;
const FUTURE_MAX_MS = 5 * MINUTE_MS;
const BYTE_ORDER = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1 ? "little" : "big";

type Header = {
  project_id: string;
  env: string | null;
  workspace_id: string;
  version: number;
  fetched_at: number;
  byte_order: string;
  profiles: [number, string][];
  tenants: number;
  /** What was announced when it was fetched; absent in the earlier format. */
  caps?: string;
  /**
   * The tag of its last delta. Without it, a policy that holds its version only in part would acknowledge that version
   * after a restart. Libraries that do not know the field ignore it.
   */
  tag?: string | null;
  /** The prefixes of its keys; absent: `kr` alone. */
  prefixes?: readonly string[];
};

export class CacheFile {
  readonly #file: string;
  readonly #runtime: Runtime;
  readonly #state: PolicyState;
  #dirty = false;
  #writtenAt = 0;
  #gapMs = WRITE_GAP_MS;
  #cancel: (() => void) | null = null;
  #writing: Promise<void> = Promise.resolve();
  /** Failed writes in a row. */
  #failures = 0;

  constructor(file: string, runtime: Runtime, state: PolicyState) {
    this.#file = file;
    this.#runtime = runtime;
    this.#state = state;
  }

  /** Installs the file's policy if it is intact, of this project and not too old. Never throws. */
  async load(): Promise<void> {
    try {
      const bytes = await builtinModule("node:fs/promises")?.readFile(this.#file);
      if (!bytes) return;
      const read = decode(bytes, this.#runtime.settings);
      const age = this.#runtime.ports.now() - read.fetchedAt;
      // A clock that was set back makes an old policy look fresh.
      if (age < -FUTURE_MAX_MS) throw new Error("its timestamp is in the future");
      if (age > this.#runtime.settings.maxStaleMs) throw new Error("it is older than maxStaleMs");
      this.#state.confirm(read.policy, Math.max(0, age));
      this.#writtenAt = this.#state.confirmedAt;
    } catch (error) {
      if ((error as { code?: unknown }).code === "ENOENT") return;
      this.#runtime.log("warn", "the cache file is not used", {
        why: error instanceof Error ? error.message : "unreadable",
      });
    }
  }

  /** Called after each feed response: schedules a write for a change, and now and then for a confirmation. */
  note(changed: boolean): void {
    const refreshMs = Math.min(REFRESH_MAX_MS, this.#runtime.settings.maxStaleMs / 20);
    // Negative after the wall clock was set back: a file from the future would be refused at the next start.
    const ageMs = Math.abs(this.#state.confirmedAt - this.#writtenAt);
    if (!changed && !this.#dirty && ageMs < refreshMs) return;
    this.#dirty = true;
    this.#cancel ??= this.#runtime.ports.after(this.#gapMs, () => {
      this.#cancel = null;
      this.#writing = this.#writing.then(() => this.#write());
    });
  }

  async close(): Promise<void> {
    this.#cancel?.();
    this.#cancel = null;
    if (this.#dirty) this.#writing = this.#writing.then(() => this.#write());
    await this.#writing;
  }

  async #write(): Promise<void> {
    const policy = this.#state.policy;
    const fs = builtinModule("node:fs/promises");
    if (!policy || !fs) return;
    const startedAt = this.#runtime.ports.elapsed();
    const temporary = `${this.#file}.${randomHex()}.tmp`;
    this.#dirty = false;
    try {
      const { header, tables } = encode(policy, this.#state.confirmedAt);
      const mac = hmacHexParts(this.#runtime.settings.secretKey, [MAGIC, header, ...tables]);
      const handle = await fs.open(temporary, "wx", 0o600);
      try {
        await handle.writeFile(`${MAGIC} ${mac}\n${header}`);
        for (const table of tables) await handle.writeFile(table);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await fs.rename(temporary, this.#file);
      this.#writtenAt = this.#state.confirmedAt;
      this.#failures = 0;
    } catch (error) {
      this.#dirty = true;
      await fs.rm(temporary, { force: true }).catch(() => {});
      if (shouldLog(++this.#failures)) this.#logFailure(error);
    }
    // Spends at most a twentieth of the time on writing: a large policy is written less often.
    this.#gapMs = Math.max(WRITE_GAP_MS, 20 * (this.#runtime.ports.elapsed() - startedAt));
  }

  #logFailure(error: unknown): void {
    const why = error instanceof Error ? error.message : "";
    this.#runtime.log("warn", "the cache file cannot be written", { why, failures: this.#failures });
  }
}

function encode(policy: Policy, fetchedAt: number): { header: string; tables: Uint8Array[] } {
  const tenants = policy.tenants.copyIds();
  const header: Header = {
    project_id: policy.projectId,
    env: policy.env,
    workspace_id: policy.workspaceId,
    version: policy.version,
    fetched_at: fetchedAt,
    byte_order: BYTE_ORDER,
    profiles: policy.profiles.entries(),
    tenants: tenants.length,
    caps: policy.caps,
    tag: policy.tag,
    prefixes: policy.formats.prefixes,
  };
  const tables = [tenants, policy.keys.copyRows()].map((words) => new Uint8Array(words.buffer));
  return { header: `${JSON.stringify(header)}\n`, tables };
}

function decode(bytes: Uint8Array, settings: Settings): { policy: Policy; fetchedAt: number } {
  const decoder = new TextDecoder();
  const [magic, mac] = decoder.decode(bytes.subarray(0, FIRST_LINE_BYTES)).trimEnd().split(" ");
  const signed = bytes.subarray(FIRST_LINE_BYTES);
  const isKnown = magic === MAGIC || magic === EARLIER_MAGIC || magic === FIRST_MAGIC;
  const authenticated = magic === undefined || magic === FIRST_MAGIC ? [signed] : [magic, signed];
  if (!isKnown || mac !== hmacHexParts(settings.secretKey, authenticated)) {
    throw new Error("it is damaged or was written with another secret key");
  }
  const end = signed.indexOf(10) + 1;
  const header = JSON.parse(decoder.decode(signed.subarray(0, end))) as Header;
  if (header.project_id !== settings.projectId || header.env !== settings.env) {
    throw new Error("it belongs to another project or environment");
  }
  if (header.byte_order !== BYTE_ORDER) throw new Error("it was written on a machine of another byte order");
  const policy = new Policy(header.workspace_id, header.project_id, settings.env, header.version);
  policy.caps = header.caps ?? "";
  policy.tag = header.tag ?? null;
  policy.formats = readFormats(header.prefixes);
  // Copied by the constructor, because Buffer's `slice` is a view: 32-bit words must be aligned.
  fillTables(policy, header, new Int32Array(new Uint8Array(signed.subarray(end)).buffer));
  return { policy, fetchedAt: header.fetched_at };
}

function fillTables(policy: Policy, header: Header, tables: Int32Array): void {
  const profiles = new Map(header.profiles);
  const rows = tables.subarray(header.tenants);
  policy.keys = new KeyTable(rows.length / ROW);
  for (let at = 0; at < rows.length; at += ROW) {
    const profile = profiles.get(rows[at + PROFILE] as number);
    const tenant = (rows[at + TENANT] as number) * 4;
    if (profile === undefined || tenant >= header.tenants) throw new Error("it is inconsistent");
    rows[at + PROFILE] = policy.profiles.acquire(profile);
    rows[at + TENANT] = policy.tenants.acquire(tables, tenant);
    policy.keys.put(rows, at);
  }
}
