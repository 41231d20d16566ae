// The policy feed of the fake control plane: versions, a change log, paging by key id, etags and long polls
// (docs/design/0004-policy-feed-and-versions.md).

import { EventEmitter, once } from "node:events";
import { keyEntry, type KeyEntry, type PolicyChange, type RemovedKey, sha256Hex } from "./policy-fixtures.ts";
import type { RecordedRequest, FakeResponse } from "./exchange.ts";

const ALLOWED = {
  snapshot: ["project_id", "env", "tenant_id", "node", "caps", "max_keys", "cursor"],
  delta: ["project_id", "env", "tenant_id", "node", "caps", "max_keys", "since", "wait_ms", "leaving"],
};

export class FakeFeed {
  version = 1;
  /** The oldest version that a delta can start from. */
  minDelta = 1;
  ceiling = 10_000;
  deleted = false;
  /** Whether `wait_ms` is supported; an older server rejects it as an unknown parameter. */
  longPolls = true;
  /** Whether `caps` is supported. A node that announces any gets entries as they are. */
  capable = true;
  readonly nodes = new Map<string, number>();
  readonly entries = new Map<string, KeyEntry>();
  readonly log: { version: number; change: PolicyChange }[] = [];
  readonly #workspace: string;
  readonly #project: string;
  readonly #events = new EventEmitter();

  constructor(workspace: string, project: string) {
    this.#workspace = workspace;
    this.#project = project;
    this.#events.setMaxListeners(0);
  }

  upsert(key: string, more: Partial<KeyEntry>): string {
    const entry = keyEntry(key, { ...this.entries.get(sha256Hex(key)), ...more });
    this.entries.set(entry.lookup_hash, entry);
    this.#change({ change: "upsert", ...entry });
    return entry.key_id;
  }

  remove(key: string): void {
    const entry = this.entries.get(sha256Hex(key));
    if (!entry) return;
    this.entries.delete(entry.lookup_hash);
    this.#change(removal(entry, "revoked"));
  }

  deleteProject(): void {
    this.deleted = true;
    this.entries.clear();
    this.minDelta = this.version + 1;
    this.bump();
  }

  /** As after `keyrack restore`: other content under a version that no node has seen. */
  restore(version: number): void {
    this.log.length = 0;
    this.minDelta = version;
    this.version = version - 1;
    this.bump();
  }

  bump(): void {
    this.version++;
    this.#events.emit("changed");
  }

  /** Responds to every waiting long poll, as a stopping server does. */
  stop(): void {
    this.#events.emit("changed");
  }

  /** Resolves once every node has acknowledged the current version. */
  async acknowledged(nodes: number): Promise<void> {
    while ([...this.nodes.values()].filter((version) => version >= this.version).length < nodes) {
      await once(this.#events, "acknowledged");
    }
  }

  async respond(verb: string, { query, headers }: RecordedRequest, closed: Promise<void>): Promise<FakeResponse> {
    const allowed = ALLOWED[verb as keyof typeof ALLOWED] ?? [];
    const unknown = [...query.keys()].filter(
      (name) =>
        !allowed.includes(name) || (name === "wait_ms" && !this.longPolls) || (name === "caps" && !this.capable),
    );
    if (unknown.length > 0) return { status: 400, json: { error: { code: "invalid_request", message: "" } } };
    if (query.get("project_id") !== this.#project) return { status: 404, json: { error: { code: "not_found" } } };
    if (verb === "snapshot") {
      // It acknowledges no version, and revocations wait for the node from now on.
      const node = query.get("node");
      if (node && !this.nodes.has(node)) this.nodes.set(node, 0);
      return this.#snapshot(query);
    }
    return this.#delta(query, headers["if-none-match"], closed);
  }

  async #delta(query: URLSearchParams, etag: string | undefined, closed: Promise<void>): Promise<FakeResponse> {
    const since = Number(query.get("since"));
    this.#register(query, since);
    const waitMs = Number(query.get("wait_ms") ?? 0);
    if (since === this.version && waitMs > 0) await this.#wait(waitMs, closed);
    const tag = this.#etag("delta", query, this.version);
    if (since === this.version || etag === tag) return { status: 304, headers: { etag: tag } };
    if (since === 0 || since < this.minDelta || since > this.version || this.deleted) return this.#snapshot(query);
    const latest = new Map<string, { version: number; change: PolicyChange }>();
    for (const row of this.log)
      if (row.version > since && this.#visible(query, row.change)) latest.set(row.change.key_id, row);
    const rows = [...latest.values()].toSorted((a, b) => a.version - b.version);
    const max = Number(query.get("max_keys") ?? this.ceiling);
    const end = rows[max - 1]?.version ?? 0;
    const page = rows.length > max ? rows.filter((row) => row.version <= end) : rows;
    const version = rows.length > max ? end : this.version;
    const changes = page.map(({ change }) => served(query, change) ?? removal(change, "unsupported"));
    const json = { ...this.#head("policy_delta", query, version), since, changes };
    return { status: 200, json, headers: { etag: this.#etag("delta", query, version) } };
  }

  #snapshot(query: URLSearchParams): FakeResponse {
    const cursor = query.get("cursor");
    const from = cursor
      ? (JSON.parse(Buffer.from(cursor, "base64url").toString()) as [number, string])
      : [this.version, ""];
    const max = Math.min(this.ceiling, Number(query.get("max_keys") ?? this.ceiling));
    const all = [...this.entries.values()].filter((entry) => this.#visible(query, entry) && served(query, entry));
    if (!query.has("max_keys") && all.length > this.ceiling)
      return { status: 413, json: { error: { code: "snapshot_too_large" } } };
    const remaining = all
      .toSorted((a, b) => (a.key_id < b.key_id ? -1 : 1))
      .filter((entry) => entry.key_id > String(from[1]));
    const keys = remaining.slice(0, max);
    const version = Number(from[0]);
    const last = keys.at(-1)?.key_id;
    const next = remaining.length > max ? Buffer.from(JSON.stringify([version, last])).toString("base64url") : null;
    const json = { ...this.#head("policy_snapshot", query, version), keys, next_cursor: next };
    return { status: 200, json, headers: { etag: this.#etag("snap", query, version) } };
  }

  #head(object: string, query: URLSearchParams, version: number) {
    return {
      object,
      workspace_id: this.#workspace,
      project_id: this.#project,
      env: query.get("env"),
      version,
      project_deleted: this.deleted,
      generated_at: new Date().toISOString(),
    };
  }

  #etag(kind: string, query: URLSearchParams, version: number): string {
    return `W/"${kind}:${this.#project}:${query.get("env") ?? "all"}:all:${version}"`;
  }

  #visible(query: URLSearchParams, entry: { env: string }): boolean {
    return !query.has("env") || query.get("env") === entry.env;
  }

  #register(query: URLSearchParams, since: number): void {
    const node = query.get("node");
    if (!node) return;
    if (query.get("leaving") === "true") this.nodes.delete(node);
    else if (since <= this.version) this.nodes.set(node, since);
    this.#events.emit("acknowledged");
  }

  async #wait(ms: number, closed: Promise<void>): Promise<void> {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), ms);
    void closed.then(() => stop.abort());
    await once(this.#events, "changed", { signal: stop.signal }).catch(() => {});
    clearTimeout(timer);
  }

  #change(change: PolicyChange): void {
    this.log.push({ version: this.version + 1, change });
    this.bump();
  }
}

/** As the server gives it to the node; null for one that the node could not enforce. */
function served<T extends KeyEntry | PolicyChange>(query: URLSearchParams, entry: T): T | null {
  if (query.has("caps") || !("scopes" in entry)) return entry;
  return entry.disabled || entry.metered || entry.ip_mode === "enforce" ? null : entry;
}

function removal(
  { key_id, tenant_id, env, lookup_hash, display_prefix }: Omit<RemovedKey, "change" | "reason">,
  reason: RemovedKey["reason"],
): RemovedKey {
  return { change: "remove", key_id, tenant_id, env, lookup_hash, display_prefix, reason };
}
