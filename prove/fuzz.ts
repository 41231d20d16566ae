// Fuzzing: requests generated from our own OpenAPI document and then corrupted, and bytes no client would send. Every
// response is one the document describes, a refusal has the error envelope, no response is a 5xx but the documented
// 503, and no credential or password that was sent is returned or logged.
import { Ajv2020 } from "ajv/dist/2020.js";
import formats from "ajv-formats";
import { openApiDocument } from "../src/http/openapi.ts";
import { endpoints } from "../src/api/index.ts";
import { rounds, type Campaign, type Tally } from "./campaign.ts";
import { fuzzSocket } from "./fuzz-socket.ts";
import { seeded, type Random } from "../harness/random.ts";
import { startLocalInstance, type LocalInstance } from "../harness/instances/local-instance.ts";
import { NASTY, corrupted, valueFor, type Schema } from "../harness/json-values.ts";
import { makePerson, makeWorld, must, type World } from "../harness/instances/world.ts";

type Parameter = { name: string; in: "path" | "query" | "header"; required: boolean; schema: Schema };
type Content = Record<string, { schema: Schema }>;
type Operation = {
  method: string;
  path: string;
  security: Record<string, unknown>[];
  parameters: Parameter[];
  requestBody?: { content: Content };
  responses: Record<string, { content: Content }>;
};
type Sent = { route: string; bearer: string | null; body: string | undefined; headers: Record<string, string> };
/** Existing ids, all of them and by kind. */
type Ids = { ids: string[]; emails: string[]; kinds: Record<string, string[]> };
type Stage = { rig: LocalInstance; world: World; bearers: Record<string, string>; known: Ids };

/** Requests per workspace: fuzzing revokes its own keys and deletes its own project. */
const STAGE_ROUNDS = 250;
const ORIGIN = "https://app.example.com";
const IDS_MAX = 400;

const document = await openApiDocument(endpoints);

/** A short run uses most schemas once, so that compiling them costs more than validating. */
const FAST_COMPILE = { validateSchema: false, inlineRefs: false, code: { optimize: false } };
/** Compiles a schema when a response is first validated by it. Throws on an unknown keyword. */
const ajv = new Ajv2020({ allowUnionTypes: true, strictRequired: false, ...FAST_COMPILE });
formats.default(ajv);
for (const [name, schema] of Object.entries((document.components as { schemas: Record<string, Schema> }).schemas))
  ajv.addSchema(schema, `#/components/schemas/${name}`);

const operations: Operation[] = Object.entries(document.paths as Record<string, Record<string, object>>).flatMap(
  ([path, methods]) =>
    Object.entries(methods).map(
      ([method, described]) => ({ method: method.toUpperCase(), path, ...described }) as Operation,
    ),
);

async function openStage(rig: LocalInstance, dir: string, n: number): Promise<Stage> {
  const bootstrap = rig.app.bootstrap.token as string;
  const world = await makeWorld(rig.call, bootstrap, `fuzz-${n}`);
  const { key, project_id, tenant_id } = world;
  const person = await makePerson(rig.call, dir, `fuzz${n}@example.com`);
  const invite = await must(rig.call(key, "POST /v1/invites", { email: person.email, role: "owner" }));
  await must(rig.call(person.session, "POST /v1/auth/invites/accept", { token: invite.token }));
  const workspace_id = world.workspace_id;
  await must(rig.call(person.session, "POST /v1/auth/sessions/current/workspace", { workspace_id }));
  const test = await must(rig.call(key, "POST /v1/secret_keys", { env: "test" }));
  await must(rig.call(key, "PATCH /v1/workspace", { embed_origins: [ORIGIN] }));
  const want = { project_id, tenant_id, env: "live", scopes: ["keys:read", "keys:write"] };
  const embed = await must(rig.call(key, "POST /v1/embed_tokens", want));
  const minted = await must(rig.call(key, "POST /v1/keys", { project_id, tenant_id, env: "live" }));
  return {
    rig,
    world,
    bearers: {
      secretKey: key,
      session: person.session,
      embedToken: embed.token,
      bootstrapToken: bootstrap,
      test: test.key,
      customer: minted.key,
      unknown: "krsk_live_x",
    },
    known: {
      ids: [project_id, tenant_id, minted.id, workspace_id, person.id, invite.id, test.id],
      emails: [person.email, `guest${n}@example.com`],
      kinds: { project: [project_id], tenant: [tenant_id], api_key: [minted.id], workspace: [workspace_id] },
    },
  };
}

/** The kind of the ids in a field or a path. */
const KINDS: readonly [RegExp, string][] = [
  [/keys$|^key_id$/, "api_key"],
  [/secret_keys$/, "secret_key"],
  [/projects$|^project_id$/, "project"],
  [/tenants$|^tenant_id$/, "tenant"],
  [/invites$/, "workspace_invite"],
  [/sessions$/, "session"],
  [/^workspace_id$/, "workspace"],
];

/** Mostly an id of the right kind: a request about a missing resource only reaches the 404. */
function fitting(name: string, value: unknown, random: Random, { kinds }: Ids): unknown {
  const kind = KINDS.findLast(([pattern]) => pattern.test(name))?.[1] ?? "";
  return kinds[kind] && random.int(0, 4) > 0 ? random.pick(kinds[kind]) : value;
}

/** Mostly a credential that the operation accepts. */
function bearerFor(operation: Operation, random: Random, bearers: Record<string, string>): string | null {
  const names = operation.security.flatMap((scheme) => Object.keys(scheme));
  if (random.int(0, 5) === 0 || names.length === 0) return random.pick([null, ...Object.values(bearers)]);
  return bearers[random.pick(names)] ?? null;
}

/** A valid request, mostly corrupted in one place. */
function requestFor(operation: Operation, random: Random, known: Ids): Omit<Sent, "bearer"> {
  const make = (schema: Schema): unknown => {
    const value = valueFor(schema, random, known, document);
    return random.int(0, 9) === 0 ? corrupted(value, random) : value;
  };
  const query = new URLSearchParams();
  const headers: Record<string, string> = random.int(0, 3) === 0 ? { origin: ORIGIN } : {};
  let { path } = operation;
  for (const { name, in: place, required, schema } of operation.parameters) {
    if (!required && random.int(0, 1) === 0) continue;
    // A long poll would only wait.
    const made = name === "wait_ms" ? random.pick(["0", "1", "-1", "x"]) : make(schema);
    const about = place === "path" ? path.slice(0, path.indexOf(`/{${name}}`)) : name;
    const value = String(fitting(about, made, random, known));
    if (place === "path") path = path.replace(`{${name}}`, encodeURIComponent(value.toWellFormed()) || "%20");
    else if (place === "query") query.append(name, value.toWellFormed());
    else headers[name.toLowerCase()] = value.replace(/[^\x20-\x7e]/g, "?").slice(0, 300);
  }
  if (random.int(0, 19) === 0) query.append(random.pick(NASTY).toWellFormed(), "1");
  const schema = operation.requestBody?.content["application/json"]?.schema;
  const method = operation.method;
  const route = `${method} ${path}${query.size > 0 ? `?${query.toString()}` : ""}`;
  if (method === "GET" || (!schema && random.int(0, 3) > 0)) return { route, body: undefined, headers };
  const made = (schema ? valueFor(schema, random, known, document) : {}) as object;
  const value = Object.fromEntries(
    Object.entries(made).map(([name, field]) => [name, fitting(name, field, random, known)]),
  );
  let body = JSON.stringify(random.int(0, 1) === 0 ? corrupted(value, random) : value);
  if (random.int(0, 19) === 0) body = body.slice(0, random.int(0, body.length));
  if (random.int(0, 29) === 0) body = body.replace(/"/, '"\\u0000');
  if (random.int(0, 29) === 0)
    headers["content-type"] = random.pick(["text/plain", "application/json; charset=utf-16", ""]);
  return { route, body, headers };
}

/** Secrets in the request: fields whose name says so, and the credential itself. */
function secretsIn({ bearer, body }: Sent): string[] {
  const fields = [...(body ?? "").matchAll(/"(?:password|current_password|token|lock_token)":"([^"]{12,})"/g)];
  return [bearer ?? "", ...fields.map(([, value = ""]) => value)].filter((text) => text.length >= 12);
}

/** A request target over 16 KiB is refused by the parser, before routing. */
const TOO_LARGE = { content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } } };

/** The violation of a response, or null. */
function judge(
  operation: Operation,
  sent: Sent,
  reply: { status: number; headers: Headers; text: string },
): string | null {
  const { status, headers, text } = reply;
  if (status >= 500 && status !== 503) return `${status} ${text}`;
  if (status === 503 && headers.get("retry-after") === null) return "503 without retry-after";
  if (status === 304) return text === "" ? null : "304 with a body";
  const described = status === 431 ? TOO_LARGE : operation.responses[status];
  if (!described) return `the document does not describe ${status}: ${text.slice(0, 300)}`;
  const [type, content] = Object.entries(described.content)[0] ?? ["", undefined];
  if (!headers.get("content-type")?.startsWith(type.split(";")[0] ?? "")) return `${headers.get("content-type")}`;
  if (headers.get("x-content-type-options") !== "nosniff" || headers.get("request-id") === null) return "bare headers";
  if (headers.get("set-cookie") !== null) return "a cookie";
  if (type.startsWith("application/json") && !ajv.validate(content?.schema ?? {}, JSON.parse(text)))
    return `${status} against its schema: ${ajv.errorsText()} in ${text.slice(0, 300)}`;
  const all = `${text}\n${JSON.stringify([...headers])}`;
  const echoed = secretsIn(sent).find((secret) => all.includes(secret));
  return echoed === undefined ? null : `a secret came back: ${echoed.slice(0, 12)}… in ${text.slice(0, 200)}`;
}

function harvest(text: string, known: Ids): void {
  for (const [, kind = "", id = ""] of text.matchAll(/"object":"(\w+)","id":"([0-9a-f-]{36})"/g)) {
    if (known.ids.length >= IDS_MAX || known.ids.includes(id)) continue;
    known.ids.push(id);
    (known.kinds[kind] ??= []).push(id);
  }
}

async function fuzzOnce(stage: Stage, seed: number, tally: Tally): Promise<void> {
  const random = seeded(seed);
  const { rig, known } = stage;
  const operation = random.pick(operations);
  const bearer = bearerFor(operation, random, stage.bearers);
  const sent = { bearer, ...requestFor(operation, random, known) };
  const options = { headers: sent.headers, ...(sent.body !== undefined && { raw: sent.body }) };
  const from = rig.logs.length;
  const reply = await rig.call(bearer, sent.route, undefined, options).catch((error: Error) => error);
  if (reply instanceof Error) {
    tally.failed(
      seed,
      `${sent.route}: no answer that can be read: ${reply.message} ${(reply.cause as Error | undefined)?.message ?? ""}`,
    );
    return;
  }
  const wrong = judge(operation, sent, reply);
  if (wrong !== null) tally.failed(seed, `${wrong} to ${sent.route.slice(0, 300)} ${sent.body?.slice(0, 500) ?? ""}`);
  const logged = rig.logs.splice(from).join("\n");
  for (const secret of secretsIn(sent))
    if (logged.includes(secret)) tally.failed(seed, `${sent.route}: a secret is in the log`);
  if (reply.status < 300) harvest(reply.text, known);
  tally.count(`${Math.floor(reply.status / 100)}xx responses`);
}

export const fuzz: Campaign = {
  name: "fuzz",
  promise: "P2",
  claim: "Every response is one the OpenAPI document describes, and never a 5xx but the documented 503.",
  rounds: 100_000,
  round: "request, every tenth over a raw socket",
  backends: ["sqlite", "postgres"],
  async run(options, tally) {
    const { scratch } = options;
    const rig = await startLocalInstance({ target: scratch.target, dir: scratch.dir });
    try {
      let stage: Stage | undefined;
      for (const seed of rounds(options, tally)) {
        if (!stage || tally.rounds % STAGE_ROUNDS === 0) stage = await openStage(rig, scratch.dir, tally.rounds);
        if (seed % 10 === 0) await fuzzSocket(rig.app.url, stage.world.key, seed, tally);
        else await fuzzOnce(stage, seed, tally);
        if (seed % 5_000 === 0) options.print(`seed ${seed}`);
      }
      const health = await rig.call(null, "GET /readyz");
      if (health.status !== 200) tally.failed(options.seed, `not ready afterwards: ${health.text}`);
    } finally {
      await rig.app.stop();
    }
  },
};
