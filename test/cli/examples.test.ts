// The examples in the help of commands work: the command accepts each, and the API what the command sends.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { team, type Team } from "../../harness/instances/people.ts";
import { testInstance, type TestInstance } from "../../harness/instances/test-instance.ts";
import { testClock } from "../../harness/instances/test-services.ts";
import { UNKNOWN_ID } from "../../harness/processes/seeded-server.ts";
import type { CommandSpecs } from "../../src/cli/api/command-spec.ts";
import { buildRequest, type ApiOptions } from "../../src/cli/api/send.ts";
import { helpOf, leafCommands } from "../../tools/help.ts";

const specs = JSON.parse(
  readFileSync(new URL("../../src/cli/api/commands.gen.json", import.meta.url), "utf8"),
) as CommandSpecs;

/** What a reader replaces by a value of their own. */
const PLACEHOLDER = /^(\$[A-Z_]+|([A-Z]+_)?ID|PLAN|KEY)$/;

/** The words of a command line as a shell splits it, without redirections and pipes. */
function wordsOf(line: string): string[] {
  const [command = ""] = line.split(/ [<>|] /);
  const words = command.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g);
  return [...words].map(([, single, double, bare]) => single ?? double ?? bare ?? "");
}

/** Every example as the options and arguments that its command gets. */
async function* parsedExamples(replace: (placeholder: string) => string) {
  for (const { words, command } of await leafCommands()) {
    const [, examples = ""] = helpOf(command).split("\nExamples:\n");
    command
      .exitOverride()
      .configureOutput({ writeErr: () => {} })
      .action(() => {});
    for (const line of examples.match(/^ {2}keyrack .*$/gm)?.map((text) => text.trim()) ?? []) {
      const given = wordsOf(line).map((word) => (PLACEHOLDER.test(word) ? replace(word) : word));
      const start = ["keyrack", ...words];
      const own = given.slice(0, start.length).join(" ") === start.join(" ");
      const refused = await command.parseAsync(given.slice(start.length), { from: "user" }).then(
        () => undefined,
        (error: unknown) => (error as Error).message,
      );
      const spec = specs[words[0] ?? ""]?.[words[1] ?? ""];
      yield {
        line,
        refused: own ? refused : "an example of another command",
        spec,
        args: command.args,
        options: command.opts<ApiOptions>(),
      };
    }
  }
}

describe("an example in the help", () => {
  let instance: TestInstance;
  let t: Team;
  let project_id = "";

  beforeAll(async () => {
    // The time that the examples are written for.
    instance = await testInstance("sqlite", { clock: testClock(Date.parse("2026-11-17T12:00:00Z")) });
    t = await team(instance);
    const call = async (route: string, body: object) => (await instance.call(t.key, route, body)).body;
    project_id = (await call("POST /v1/projects", { name: "P", slug: "ppp" })).id as string;
    const { id: tenant_id } = await call("POST /v1/tenants", { external_id: "one" });
    for (let i = 0; i < 3; i++) await call("POST /v1/keys", { project_id, tenant_id, env: "live" });
    await call("PATCH /v1/workspace", { embed_origins: ["https://app.example.com"] });
  });
  afterAll(() => instance[Symbol.asyncDispose]());

  it("is accepted by its command and by the API, and leaves no value to guess", async () => {
    const problems: string[] = [];
    const replace = (placeholder: string): string => (placeholder === "$KEYRACK_PROJECT_ID" ? project_id : UNKNOWN_ID);
    for await (const { line, refused, spec, args, options } of parsedExamples(replace)) {
      if (refused !== undefined || /\bVALUE\b/.test(line)) problems.push(`${line}: ${refused}`);
      // The fields that such a run lacks are columns of the file.
      if (!spec || options.fromCsv) continue;
      const { method, path, query, body } = buildRequest(spec, args, options);
      const search = new URLSearchParams();
      for (const [name, value] of Object.entries(query ?? {}))
        for (const one of [value ?? []].flat()) search.append(name, String(one));
      search.delete("after"); // must be the id of a record in the list
      const bearer = path === "/v1/embed_tokens" ? t.key : t.owner.session;
      const reply = await instance.call(
        bearer,
        `${method} ${path}${search.size > 0 ? `?${search.toString()}` : ""}`,
        body,
      );
      if (/^(invalid_request|unauthenticated|forbidden)$/.test(reply.body.error?.code))
        problems.push(`${line}: ${reply.text}`);
    }
    expect(problems).toEqual([]);
  });
});
