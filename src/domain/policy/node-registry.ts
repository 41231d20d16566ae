// The nodes that hold policy, and which of them have acknowledged a version. A poll never waits for its row: what nodes
// say is collected and written in one go beside the answers, and only where it is news.
import { BoundedMap } from "../../kernel/lru.ts";
import type { Log } from "../../platform/log.ts";
import type { Store } from "../../store/store.ts";
import {
  deleteNode,
  insertNode,
  nodeByKey,
  surplusNodes,
  updateNode,
  type NodeKey,
} from "../../store/queries/nodes.ts";
import type { Tx } from "../../store/engine/statement.ts";
import type { EnvScope, PolicyNodeRow } from "../../store/schema/tables.ts";
import type { Clock } from "../core/clock.ts";
import type { Head } from "./feed.ts";
import { record } from "../core/record.ts";

export const NODES_MAX = 1_000;
export const NODE_KEPT_MS = 24 * 3_600_000;
const SEEN_EVERY_MS = 30_000;
const REMEMBERED_MAX = 50_000;
const PENDING_MAX = 5_000;
const WRITE_MAX = 500;

/** `version` null: the node was seen (it took a snapshot) and has acknowledged nothing by that. */
type Word = Omit<PolicyNodeRow, "version"> & { version: number | null; leaving: boolean };

export class NodeRegistry {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #log: Log;
  /** What is known to be in the database, so that a poll that says nothing new touches nothing. */
  readonly #written = new BoundedMap<string, { version: number; last_seen_at: number }>({ max: REMEMBERED_MAX });
  readonly #pending = new Map<string, Word>();
  readonly #listeners = new Set<() => void>();
  #writing: Promise<void> | undefined;

  constructor(store: Store, clock: Clock, log: Log) {
    this.#store = store;
    this.#clock = clock;
    this.#log = log;
  }

  acknowledge(head: Head, node_id: string, env_scope: EnvScope, version: number): void {
    const key = keyOf(head.project_id, node_id, env_scope);
    const now = this.#clock.now();
    const known = this.#written.get(key);
    if (known?.version === version && now - known.last_seen_at < SEEN_EVERY_MS) return;
    this.#say(key, { project_id: head.project_id, node_id, env_scope, version, last_seen_at: now, leaving: false });
  }

  /** A node that takes a snapshot is alive; what it holds it tells with its next delta. */
  seen(head: Head, node_id: string, env_scope: EnvScope): void {
    const key = keyOf(head.project_id, node_id, env_scope);
    const now = this.#clock.now();
    const known = this.#written.get(key);
    if (known && now - known.last_seen_at < SEEN_EVERY_MS) return;
    this.#say(key, {
      project_id: head.project_id,
      node_id,
      env_scope,
      version: null,
      last_seen_at: now,
      leaving: false,
    });
  }

  leave({ project_id }: Head, node_id: string, env_scope: EnvScope): void {
    const key = keyOf(project_id, node_id, env_scope);
    this.#say(key, { project_id, node_id, env_scope, version: null, last_seen_at: this.#clock.now(), leaving: true });
  }

  /** Resolves when everything said so far is in the database (or was given up). */
  async settled(): Promise<void> {
    while (this.#writing) await this.#writing;
  }

  /** Calls back after acknowledgements were written; answers how to stop that. */
  onWritten(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #say(key: string, word: Word): void {
    const before = this.#pending.get(key);
    // Beyond the bound a word is dropped: the node says it again with its next poll.
    if (!before && this.#pending.size >= PENDING_MAX) return;
    const version = word.version ?? (word.leaving ? null : (before?.version ?? null));
    this.#pending.set(key, { ...word, version });
    this.#writing ??= this.#write().finally(() => {
      this.#writing = undefined;
    });
  }

  async #write(): Promise<void> {
    while (this.#pending.size > 0) {
      const words = [...this.#pending].slice(0, WRITE_MAX);
      for (const [key] of words) this.#pending.delete(key);
      try {
        const news = await this.#newsAmong(words);
        const dropped = news.length > 0 ? await record({ store: this.#store }, (tx) => writeWords(tx, news)) : [];
        for (const node of dropped) this.#written.delete(keyOf(node.project_id, node.node_id, node.env_scope));
        for (const listener of this.#listeners) listener();
      } catch (error) {
        for (const [key] of words) this.#written.delete(key);
        this.#log.warn("acknowledgements of nodes were not written", { nodes: words.length, error: String(error) });
      }
    }
  }

  /** After a restart, or on another process, a node may be known though not here: then nothing is written. */
  async #newsAmong(words: [string, Word][]): Promise<Word[]> {
    const news: Word[] = [];
    for (const [key, word] of words) {
      const row = this.#written.get(key) ?? (await nodeByKey.first(this.#store.read, word));
      const version = word.version ?? row?.version ?? 0;
      const fresh = row && word.last_seen_at - row.last_seen_at < SEEN_EVERY_MS;
      const isNews = word.leaving ? row !== undefined : !fresh || row.version !== version;
      if (isNews) news.push({ ...word, version });
      if (word.leaving) this.#written.delete(key);
      else this.#remember(key, { version, last_seen_at: isNews ? word.last_seen_at : (row?.last_seen_at ?? 0) });
    }
    return news;
  }

  #remember(key: string, said: { version: number; last_seen_at: number }): void {
    this.#written.delete(key);
    this.#written.set(key, said);
  }
}

function keyOf(project_id: string, node_id: string, env_scope: EnvScope): string {
  return `${project_id} ${env_scope} ${node_id}`;
}

/** Answers the nodes that had to make room. */
async function writeWords(tx: Tx, words: Word[]): Promise<NodeKey[]> {
  const grown = new Set<string>();
  for (const { leaving, ...word } of words) {
    if (leaving) await deleteNode.run(tx, word);
    else {
      const row = { ...word, version: word.version ?? 0 };
      if ((await updateNode.run(tx, row)) > 0) continue;
      await insertNode.run(tx, row);
      grown.add(word.project_id);
    }
  }
  const dropped: NodeKey[] = [];
  for (const project_id of grown) dropped.push(...(await surplusNodes.all(tx, { project_id, keep: NODES_MAX })));
  for (const node of dropped) await deleteNode.run(tx, node);
  return dropped;
}
