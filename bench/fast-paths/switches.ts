// The fast paths of the server, and the edit of the source that switches each off. The fast lane as a whole is measured
// by `lanes`. test/house/fast-paths.test.ts checks that every edit still applies.
import type { RowName } from "../rows.ts";
import type { Variant } from "../variants.ts";

const PRELOAD = new URL("./preload.mjs", import.meta.url).href;

type Edit = {
  file: string;
  /** Null replaces the whole file. */
  find: string | null;
  put: string;
};

export const MEASURED = [
  "parts/refused",
  "parts/unchanged-poll",
  "parts/get-by-id",
  "parts/check",
  "parts/mint",
] as const;
type Measured = (typeof MEASURED)[number];

type Switch = {
  name: string;
  rows: readonly Measured[];
  edits: readonly Edit[];
  /** A step that isolation requires, not a fast path: what it costs. */
  isRequired?: true;
};

/** The server without the fast path. */
export const serverWithout = ({ edits }: Switch): Variant => editedServer(edits);

/** A server with these edits. */
export const editedServer = (edits: readonly Edit[]): Variant => ({
  env: { NODE_OPTIONS: `--import=${PRELOAD}`, KEYRACK_BENCH_EDITS: JSON.stringify(edits) },
});

const edit = (file: string, find: string | null, put: string): Edit => ({ file, find, put });

const STREAM_REQUEST = `
import { IncomingMessage } from "node:http";
import { StreamBody } from "../body/body.ts";
export class FastRequest extends IncomingMessage {
  #body = null;
  readTo(sink) { (this.#body ??= StreamBody.of(this)).readTo(sink); }
  discard() { (this.#body ??= StreamBody.of(this)).discard(); }
}`;

const LIST_AS_SET = `
export class LinkedList {
  #nodes = new Set();
  get size() { return this.#nodes.size; }
  get first() { for (const { item } of this.#nodes) return item; }
  append(item) { const node = { item }; this.#nodes.add(node); return node; }
  remove(node) { return this.#nodes.delete(node); }
  *nodes() { yield* this.#nodes; }
  *[Symbol.iterator]() { for (const { item } of this.#nodes) yield item; }
}`;

const NO_TURNS = edit(
  "src/fairness/turns.ts",
  "const began = this.#now();\n    this.#countTurn",
  "return work();\n    this.#countTurn",
);

export const SWITCHES: readonly Switch[] = [
  {
    name: "body measured before it is parsed (`http/body/structure.ts`)",
    rows: ["parts/check"],
    edits: [edit("src/http/body/body.ts", "else if (!this.#structure.add(bytes)) this.#fail(tooComplex());\n", "")],
    isRequired: true,
  },
  {
    name: "owners take turns (`fairness/turns.ts`)",
    rows: ["parts/check"],
    edits: [NO_TURNS],
    isRequired: true,
  },
  {
    name: "the same, and one request of a connection at a time (`http/receiving/pipelining.ts`)",
    rows: ["parts/check"],
    edits: [edit("src/http/server.ts", "const serve = withPipelining(", "const serve = ((_options, next) => next)(")],
    isRequired: true,
  },
  {
    name: "failures without a stack (`kernel/errors.ts`)",
    rows: ["parts/refused"],
    edits: [edit("src/kernel/errors.ts", "Error.stackTraceLimit = 0;", "")],
  },
  {
    name: "headers of a challenge made once (`http/response.ts`)",
    rows: ["parts/refused"],
    edits: [edit("src/http/response.ts", "CHALLENGES[Number(presented)]", "{ ...CHALLENGES[Number(presented)] }")],
  },
  {
    name: "request body without a stream (`http/fast/request.ts`)",
    rows: ["parts/check", "parts/mint"],
    edits: [edit("src/http/fast/request.ts", null, STREAM_REQUEST)],
  },
  {
    name: "response head as one string (`http/fast/response.ts`)",
    rows: ["parts/unchanged-poll", "parts/check"],
    edits: [
      edit(
        "src/http/fast/response.ts",
        "this.shouldKeepAlive && this.useChunkedEncodingByDefault ? headers.text() : null",
        "null",
      ),
    ],
  },
  {
    name: "header templates (`http/response.ts`)",
    rows: ["parts/unchanged-poll", "parts/check"],
    edits: [edit("src/http/response.ts", "if (Object.isFrozen(headers)) this.#templates.set(headers, template);", "")],
  },
  {
    name: "credential parsed and hashed once per connection (`http/request.ts`)",
    rows: ["parts/unchanged-poll", "parts/check"],
    edits: [edit("src/http/request.ts", "last?.isOf(authorization) ?", 'last?.isOf("") ?')],
  },
  {
    name: "idle connections scanned, no timer per response (`http/fast/connections.ts`)",
    rows: ["parts/unchanged-poll", "parts/check"],
    edits: [
      edit("src/http/fast/connections.ts", "server.keepAliveTimeout = 0;", "server.keepAliveTimeout = KEEP_ALIVE_MS;"),
    ],
  },
  {
    name: "polls without a change answered synchronously (`domain/policy/policy.ts`)",
    rows: ["parts/unchanged-poll"],
    edits: [edit("src/api/machine/policy.ts", "= unchangedTag(ctx, query, caller);", "= undefined;")],
  },
  {
    name: "parsed queries memoized (`http/input.ts`)",
    rows: ["parts/unchanged-poll"],
    edits: [
      edit("src/http/input.ts", "endpoint.hot ? memo.get(endpoint) : undefined", "undefined"),
      edit("src/http/input.ts", "if (!endpoint.hot || query", "if (endpoint || query"),
    ],
  },
  {
    name: "endpoints of one shape (`http/endpoint.ts`)",
    rows: ["parts/check"],
    edits: [edit("src/http/endpoint.ts", "...(SHAPE as object),", "")],
  },
  {
    name: "validator of a check's body (`api/machine/fast-check.ts`)",
    rows: ["parts/check"],
    edits: [edit("src/api/machine/ratelimit.ts", "fastParseCheck)", "() => undefined)")],
  },
  {
    name: "validator of a new key's body (`api/vendor/fast-new-key.ts`)",
    rows: ["parts/mint"],
    edits: [edit("src/api/vendor/keys.ts", "  fastParseNewKey,\n", "  () => undefined,\n")],
  },
  {
    name: "own SHA-256 of credentials (`platform/crypto.ts`)",
    rows: ["parts/get-by-id", "parts/mint"],
    edits: [edit("src/platform/crypto.ts", "digestSingleBlock(input)", "false")],
  },
  {
    name: "random bytes drawn for 32 secrets at a time (`domain/auth/new-credentials.ts`)",
    rows: ["parts/mint"],
    edits: [
      edit("src/domain/auth/new-credentials.ts", "import { randomFillSync }", "import { randomBytes, randomFillSync }"),
      edit(
        "src/domain/auth/new-credentials.ts",
        "createRandomPool((bytes) => randomFillSync(bytes))",
        "() => randomBytes(RANDOM_BYTES)",
      ),
    ],
  },
  {
    name: "reads memoized in a batch (`store/engine/query-memo.ts`)",
    rows: ["parts/mint"],
    edits: [
      edit("src/store/engine/transaction.ts", "this.#batch ? this.#batch.memo.getOrRun(query, run) : run()", "run()"),
    ],
  },
  {
    name: "reads memoized in a snapshot (`store/engine/query-memo.ts`)",
    rows: ["parts/get-by-id", "parts/mint"],
    edits: [edit("src/store/sqlite/reader.ts", "this.#inSnapshot ? this.#memo.getOrRun(query, get) : get()", "get()")],
  },
  {
    name: "pending requests and queues in lists (`http/overload-guard.ts`)",
    rows: ["parts/get-by-id", "parts/check", "parts/mint"],
    edits: [edit("src/kernel/linked-list.ts", null, LIST_AS_SET)],
  },
  {
    name: "memo of a snapshot replaced instead of cleared (`store/engine/query-memo.ts`)",
    rows: ["parts/get-by-id", "parts/mint"],
    edits: [edit("src/store/engine/query-memo.ts", "    this.#results = new Map();", "    this.#results.clear();")],
  },
  {
    name: "no allocation of short-lived objects in the old generation (`platform/heap.ts`)",
    rows: ["parts/unchanged-poll", "parts/get-by-id", "parts/check", "parts/mint"],
    edits: [edit("src/platform/heap.ts", '  setFlagsFromString("--no-allocation-site-pretenuring");\n', "")],
  },
  {
    name: "one read transaction per event loop turn (`store/sqlite/reader.ts`)",
    rows: ["parts/get-by-id", "parts/mint"],
    edits: [edit("src/store/sqlite/reader.ts", "#useSnapshots = true;\n  /**", "#useSnapshots = false;\n  /**")],
  },
  {
    name: "deferred inserts (`store/engine/transaction.ts`)",
    rows: ["parts/mint"],
    edits: [
      edit(
        "src/store/engine/transaction.ts",
        "if (this.#batch) this.#batch.insertDeferred(query);\n    else await",
        "await",
      ),
    ],
  },
];

/** Every poll reads its head by a statement of its own, as before rounds. */
export const ONE_READ_A_POLL: readonly Edit[] = [
  edit(
    "src/domain/policy/head-rounds.ts",
    "const round = (this.#next ??= this.#announce());",
    "return (await this.#read([project_id]))[0]; const round = this.#announce();",
  ),
];

/** The notification of a change is sent inside its transaction too. */
export const NOTICE_INSIDE: readonly Edit[] = [
  edit(
    "src/store/engine/group-commit.ts",
    "await driver.writer.exec(isChanged ?",
    "if (isChanged) await driver.writer.exec(`select pg_notify('keyrack-bench', 'change')`); await driver.writer.exec(isChanged ?",
  ),
];

/**
 * Not fast paths, but what isolation costs: the row that it is added to, and at least which part of its speed stays.
 */
type Cost = { name: RowName; row: Measured; target: string; edits: readonly Edit[] };

export const COSTS: readonly Cost[] = [
  {
    name: "neighbours/mint-credential",
    row: "parts/mint",
    target: ">= 0.95",
    edits: [edit("src/domain/core/mutate.ts", "await ctx.recheck?.(tx);", "")],
  },
  {
    name: "neighbours/check-turns",
    row: "parts/check",
    target: ">= 0.97",
    edits: [NO_TURNS],
  },
];
