// The last good policy in a file, so that a vendor can restart while the control plane is away. In bytes:
//
//   "keyrack-policy-1 " hmac (64 hex) LF | one line of JSON (what it is of, when, the profiles) LF | tenant ids | rows
//
// The HMAC under the secret key covers all after its line, so a torn, edited or foreign file is no policy at all. It is
// written beside its place (0600) and renamed; a change is written within a second or so, never once per change.

import { KeyTable, PROFILE, ROW, TENANT } from "../../kernel/policy/key-table.ts";
import { Policy } from "../../kernel/policy/policy.ts";
import { hmacHexParts } from "../hashing.ts";
import type { PolicyState } from "./policy-state.ts";
import type { Settings } from "../options.ts";
import { builtinModule, type Log, type Ports, randomHex } from "../runtime.ts";

const MAGIC = "keyrack-policy-1";
const HEAD = MAGIC.length + 1 + 64 + 1;
const WRITE_GAP_MS = 1000;
const REFRESH_MAX_MS = 600_000;
const FUTURE_MAX_MS = 300_000;
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
};

export class CacheFile {
  readonly #file: string;
  readonly #settings: Settings;
  readonly #ports: Ports;
  readonly #log: Log;
  readonly #held: PolicyState;
  #dirty = false;
  #writtenAt = 0;
  #gapMs = WRITE_GAP_MS;
  #cancel: (() => void) | null = null;
  #writing: Promise<void> = Promise.resolve();

  constructor(file: string, settings: Settings, ports: Ports, log: Log, held: PolicyState) {
    this.#file = file;
    this.#settings = settings;
    this.#ports = ports;
    this.#log = log;
    this.#held = held;
  }

  /** Puts the file's policy in force when it is whole, ours and not too old. Never throws. */
  async load(): Promise<void> {
    try {
      const bytes = await builtinModule("node:fs/promises")?.readFile(this.#file);
      if (!bytes) return;
      const read = unpack(bytes, this.#settings);
      const age = this.#ports.now() - read.fetchedAt;
      // A clock that was set back would make an old policy look fresh.
      if (age < -FUTURE_MAX_MS) throw new Error("it was written in the future");
      if (age > this.#settings.maxStaleMs) throw new Error("it is older than maxStaleMs");
      this.#held.confirm(read.policy, Math.max(0, age));
      this.#writtenAt = this.#held.confirmedAt;
    } catch (error) {
      if ((error as { code?: unknown }).code === "ENOENT") return;
      this.#log("warn", "the cache file is not used", { why: error instanceof Error ? error.message : "unreadable" });
    }
  }

  /** After each word from the feed: a change is written soon, a mere confirmation now and then. */
  note(changed: boolean): void {
    const refreshMs = Math.min(REFRESH_MAX_MS, this.#settings.maxStaleMs / 20);
    if (!changed && !this.#dirty && this.#held.confirmedAt - this.#writtenAt < refreshMs) return;
    this.#dirty = true;
    this.#cancel ??= this.#ports.after(this.#gapMs, () => {
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
    const policy = this.#held.policy;
    const fs = builtinModule("node:fs/promises");
    if (!policy || !fs) return;
    const began = this.#ports.elapsed();
    const temporary = `${this.#file}.${randomHex()}.tmp`;
    this.#dirty = false;
    try {
      const { header, tables } = pack(policy, this.#held.confirmedAt);
      const mac = hmacHexParts(this.#settings.secretKey, [header, ...tables]);
      const handle = await fs.open(temporary, "wx", 0o600);
      try {
        await handle.writeFile(`${MAGIC} ${mac}\n${header}`);
        for (const table of tables) await handle.writeFile(table);
        await handle.sync();
      } finally {
        await handle.close();
      }
      await fs.rename(temporary, this.#file);
      this.#writtenAt = this.#held.confirmedAt;
    } catch (error) {
      this.#dirty = true;
      await fs.rm(temporary, { force: true }).catch(() => {});
      this.#log("warn", "the cache file cannot be written", { why: error instanceof Error ? error.message : "" });
    }
    // A large policy is written rarely: at most a twentieth of the time goes into its file.
    this.#gapMs = Math.max(WRITE_GAP_MS, 20 * (this.#ports.elapsed() - began));
  }
}

function pack(policy: Policy, fetchedAt: number): { header: string; tables: Uint8Array[] } {
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
  };
  const tables = [tenants, policy.keys.copyRows()].map((words) => new Uint8Array(words.buffer));
  return { header: `${JSON.stringify(header)}\n`, tables };
}

function unpack(bytes: Uint8Array, settings: Settings): { policy: Policy; fetchedAt: number } {
  const decoder = new TextDecoder();
  const [magic, mac] = decoder.decode(bytes.subarray(0, HEAD)).trimEnd().split(" ");
  const signed = bytes.subarray(HEAD);
  if (magic !== MAGIC || mac !== hmacHexParts(settings.secretKey, [signed])) {
    throw new Error("it is damaged, or of another secret key");
  }
  const end = signed.indexOf(10) + 1;
  const header = JSON.parse(decoder.decode(signed.subarray(0, end))) as Header;
  if (header.project_id !== settings.projectId || header.env !== settings.env) {
    throw new Error("it is of another project or environment");
  }
  if (header.byte_order !== BYTE_ORDER) throw new Error("it was written on another kind of machine");
  const policy = new Policy(header.workspace_id, header.project_id, settings.env, header.version);
  // A copy, and not by `slice`, which on a Buffer is a view: words must not stand at odd offsets.
  fill(policy, header, new Int32Array(new Uint8Array(signed.subarray(end)).buffer));
  return { policy, fetchedAt: header.fetched_at };
}

function fill(policy: Policy, header: Header, tables: Int32Array): void {
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
