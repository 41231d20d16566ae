// `keyrack scan patterns`: rules for other secret scanners, with the key prefixes of your projects and our own
// families.
import type { Command } from "commander";
import type { RouteOutput } from "../../../client.ts";
import { CREDENTIAL_PATTERN, formatApiKey, RANDOM_BYTES } from "../../../kernel/credentials.ts";
import { OWN_PREFIX, prefixProblem } from "../../../kernel/key-prefixes.ts";
import { fetchJson, request } from "../../api/request.ts";
import { requireBearer, resolveTarget, targetFlags, type TargetOptions } from "../../api/target.ts";
import { ExitError, examples, outputFlags, print, type OutputOptions } from "../../ui/output.ts";

const FORMATS = ["regex", "gitleaks", "trufflehog", "github"] as const;
type Format = (typeof FORMATS)[number];
type Options = OutputOptions & TargetOptions & { format: string; prefix?: string[] };
/** `keywords`: texts of which a match contains one, for scanners that search for these first. */
type Pattern = { name: string; regex: string; keywords: string[] };

const SECRET = "[A-Za-z0-9_-]{32}[0-9a-f]{8}";
const TOKEN_FAMILIES = ["krses_", "krboot_", "krev_", "krpr_", "krset_"];

export function addPatternsCommand(scan: Command): void {
  const command = targetFlags(outputFlags(scan.command("patterns"), "print only the patterns"));
  command
    .description(
      "Print rules for other secret scanners: the key prefixes of your projects and our own. To scan a folder named patterns, write ./patterns.",
    )
    .option("--format <format>", `one of ${FORMATS.join(", ")}`, "regex")
    .option("--prefix <prefix...>", "these key prefixes instead of those of your projects; needs no server")
    .addHelpText(
      "after",
      examples([
        "keyrack scan patterns --format gitleaks > gitleaks.toml",
        "keyrack scan patterns --prefix acme --json",
      ]),
    )
    .action((_options: object, self: Command) => printPatterns(self.optsWithGlobals()));
}

async function printPatterns(options: Options): Promise<void> {
  const format = FORMATS.find((name) => name === options.format);
  if (!format) throw new ExitError(`--format must be one of ${FORMATS.join(", ")}.`, 2);
  const prefixes = options.prefix ? checkPrefixes(options.prefix) : await prefixesOfProjects(options);
  const patterns = patternsFor(prefixes);
  const bare = patterns.map(({ name, regex }) => ({ name, regex }));
  if (options.json) print(JSON.stringify({ object: "scan_patterns", prefixes, patterns: bare }));
  else if (options.quiet) for (const { regex } of patterns) print(regex);
  else print(render[format](patterns, prefixes, format === "github" ? await publicUrl(options) : ""));
}

/** Where scanners reach the server: what it says of itself to a session, else the URL of this command. */
async function publicUrl(options: Options): Promise<string> {
  const target = resolveTarget(options);
  if (options.prefix || !target.bearer) return target.url; // --prefix needs no server
  const { status, text } = await request(target, { method: "GET", path: "/v1/instance" });
  return status === 200 ? (JSON.parse(text) as RouteOutput<"GET /v1/instance">).public_url : target.url;
}

function checkPrefixes(given: readonly string[]): string[] {
  for (const prefix of given) {
    const problem = prefixProblem(prefix);
    if (problem) throw new ExitError(`--prefix ${problem}.`, 2);
  }
  return sorted(given);
}

const sorted = (prefixes: readonly string[]): string[] => [...new Set([OWN_PREFIX, ...prefixes])].toSorted();

async function prefixesOfProjects(options: Options): Promise<string[]> {
  const target = requireBearer(resolveTarget(options));
  const found: string[] = [];
  for (let after: string | undefined; ; ) {
    const page: RouteOutput<"GET /v1/projects"> = await fetchJson(target, "GET /v1/projects", { query: { after } });
    found.push(...page.data.flatMap(({ key_prefixes }) => key_prefixes));
    after = page.data.at(-1)?.id;
    if (!page.has_more || after === undefined) return sorted(found);
  }
}

function patternsFor(prefixes: readonly string[]): Pattern[] {
  const chosen = prefixes.filter((prefix) => prefix !== OWN_PREFIX);
  const ofEnvs = (prefix: string): string[] => [`${prefix}_live_`, `${prefix}_test_`];
  const [ownKeys, ownTokens] = CREDENTIAL_PATTERN;
  return [
    ...chosen.map((prefix) => ({
      name: `${prefix}-key`,
      regex: `${prefix}_(live|test)_${SECRET}`,
      keywords: ofEnvs(prefix),
    })),
    { name: "keyrack-key", regex: ownKeys, keywords: [OWN_PREFIX, "krsk"].flatMap(ofEnvs) },
    { name: "keyrack-token", regex: ownTokens, keywords: TOKEN_FAMILIES },
  ];
}

/** Scanners that report groups must not take a part of a key for the key. */
const withoutGroups = (regex: string): string => regex.replaceAll("(", "(?:");
const camelCase = (name: string): string =>
  name.replace(/(?:^|-)([a-z])/g, (_match, letter: string) => letter.toUpperCase());

const render: Record<Format, (patterns: readonly Pattern[], prefixes: readonly string[], url: string) => string> = {
  regex: (patterns) => patterns.map(({ regex }) => regex).join("\n"),
  gitleaks: (patterns) =>
    [
      'title = "Keyrack credentials"',
      ...patterns.map(
        ({ name, regex, keywords }) => `
[[rules]]
id = "${name}"
description = "Keyrack credential"
regex = '''${withoutGroups(regex)}'''
keywords = ${JSON.stringify(keywords)}`,
      ),
    ].join("\n"),
  trufflehog: (patterns) =>
    [
      "detectors:",
      ...patterns.map(
        ({ name, regex, keywords }) => `  - name: ${camelCase(name)}
    keywords: [${keywords.join(", ")}]
    regex:
      key: '${withoutGroups(regex)}'`,
      ),
    ].join("\n"),
  github: (patterns, prefixes, url) => {
    const server = url.replace(/\/+$/, "");
    const samples = prefixes.flatMap((prefix) => SAMPLES.map((fill) => formatApiKey(prefix, "live", fill)));
    return [
      "# Patterns",
      ...patterns.map(({ name, regex }) => `${name}: ${regex}`),
      "",
      "# Samples that match, with right checksums; no such key exists",
      ...samples,
      "",
      "# Where to send alerts",
      `POST ${server}/v1/webhooks/scanner/secret_scanning`,
      "",
      "# How to check whether a key is valid: 200 active, 401 dead, 403 exists but does not work",
      `GET ${server}/v1/self with Authorization: Bearer <key>`,
    ].join("\n");
  },
};

/** Bytes that no random generator will return. */
const SAMPLES = [
  Uint8Array.from({ length: RANDOM_BYTES }, (_, i) => i),
  Uint8Array.from({ length: RANDOM_BYTES }, (_, i) => RANDOM_BYTES - i),
];
