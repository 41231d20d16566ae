// Loading settings: precedence, validation, and names that are misspelt.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { tempDir } from "../../harness/processes/cli.ts";
import { filesIn, readText } from "../../harness/repository.ts";
import { requireConsistent } from "../../src/config/consistency.ts";
import { loadSettings } from "../../src/config/load.ts";

const load = (env: Record<string, string>) => loadSettings({ env, cwd: "/nowhere" });

describe("settings", () => {
  it("come from flags before the environment, the environment before keyrack.toml, and that before defaults", () => {
    using at = tempDir();
    writeFileSync(join(at.dir, "keyrack.toml"), 'port = 1\nhost = "10.0.0.1"\nregion = "eu"\nthrottle = false\n');
    const { settings, raw } = loadSettings({
      env: { KEYRACK_PORT: "2", KEYRACK_HOST: "10.0.0.2" },
      flags: { port: "3" },
      cwd: at.dir,
    });
    expect([settings.port, settings.host, settings.region, settings.throttle]).toEqual([3, "10.0.0.2", "eu", false]);
    expect([raw.port, raw.host, raw.region, raw.log_level].map(({ source }) => source)).toEqual([
      "flag",
      "environment",
      "file",
      "default",
    ]);
  });

  it("that are empty count as unset", () => {
    expect(load({ KEYRACK_PORT: "" }).raw.port).toEqual({ value: "4747", source: "default" });
  });

  it.each([
    ["KEYRACK_PUBLIC_URL", "ftp://x", "must be an http:// or https:// URL"],
    ["KEYRACK_PUBLIC_URL", "https://x/?a=1", "must not have a query or a fragment"],
    ["KEYRACK_SCANNER_KEYS_URL", "http://x", "must be an https:// URL"],
    ["KEYRACK_SCANNER_KEYS_URL", "https://0x7f.1/keys", "must not name a private or reserved address"],
    ["KEYRACK_SCANNER_KEYS_URL", "https://[::ffff:10.0.0.1]/", "must not name a private or reserved address"],
    ["KEYRACK_DATABASE_URL", "mysql://x/y", "must be sqlite:FILE or postgres://USER@HOST/DATABASE"],
    [
      "KEYRACK_DATABASE_URL",
      "postgres://a/b?sslmode=on",
      "must have one of these as sslmode: disable, prefer, require, verify-ca, verify-full, no-verify",
    ],
    ["KEYRACK_REDIS_URL", "redis://a/cache", "must name a database by its number, such as redis://HOST:6379/0"],
    ["KEYRACK_REDIS_URL", "redis://a,http://b", "must be redis:// or rediss:// URLs, separated by commas"],
    ["KEYRACK_MAIL_URL", "mailto:x", "must be file:DIR, smtp://…, smtps://… or log:"],
    ["KEYRACK_BACKUP_EVERY", "0h", "must be a duration such as 30m, 24h or 7d, or off"],
    ["KEYRACK_TRUST_PROXY", "10.0.0.0/33", '"10.0.0.0/33" is not an address or a CIDR range'],
    ["KEYRACK_THROTTLE", "yes", "must be on or off"],
    ["KEYRACK_WRITES_MB_PER_DAY", "1", "must be a whole number from 8 to"],
    ["KEYRACK_DISK_RESERVE_MB", "7", "must be a whole number from 8 to"],
    ["KEYRACK_NODE_LIVE_MS", "0", "must be a whole number from 1000 to 86400000"],
    ["KEYRACK_METRICS", "9090", "must be off or HOST:PORT"],
    ["KEYRACK_REGION", "EU", "must be 1 to 32 characters of a-z, 0-9 and -"],
  ])("reject %s=%s", (name, value, message) => {
    expect(() => load({ [name]: value })).toThrow(`${name}: ${message}`);
  });

  it("in a file are rejected with the name of the file", () => {
    using temp = tempDir();
    const configFile = join(temp.dir, "other.toml");
    writeFileSync(configFile, "port = 70000\n");
    expect(() => loadSettings({ env: {}, configFile })).toThrow(`${configFile}: port: must be a whole number`);
  });

  it("of another program are ignored with a warning, and misspelt ones are errors", () => {
    expect(load({ KEYRACK_OPERATOR_IMAGE: "x" }).warnings).toEqual([
      "Unknown environment variable KEYRACK_OPERATOR_IMAGE is ignored.",
    ]);
    expect(() => load({ KEYRACK_REGOIN: "eu" })).toThrow(
      "Unknown setting KEYRACK_REGOIN. Did you mean KEYRACK_REGION?",
    );
    expect(() => load({ KEYRACK_MAX_CONNECTIONS: "500" })).toThrow(
      "Unknown setting KEYRACK_MAX_CONNECTIONS. Did you mean KEYRACK_CONNECTIONS_MAX?",
    );
  });

  it("are rejected with all that is wrong, not only the first", () => {
    using at = tempDir();
    const file = join(at.dir, "keyrack.toml");
    writeFileSync(file, 'regoin = "eu"\nthrottle = "yes"\nhost = [1]\npublic_url = "keys.example.com"\n');
    const env = { KEYRACK_PORT: "70000", KEYRACK_BACKUP_EVRY: "1d" };
    expect(() => loadSettings({ env, cwd: at.dir })).toThrow(
      [
        `${file}: unknown setting "regoin". Did you mean "region"?`,
        `${file}: host must be a string, a number or a boolean.`,
        "Unknown setting KEYRACK_BACKUP_EVRY. Did you mean KEYRACK_BACKUP_EVERY?",
        "KEYRACK_PORT: must be a whole number from 0 to 65535.",
        `${file}: public_url: must be an http:// or https:// URL.`,
        `${file}: throttle: must be on or off.`,
      ].join(" "),
    );
    const rules = [
      ["KEYRACK_TLS_CERT", "cert.pem", "KEYRACK_TLS_CERT and KEYRACK_TLS_KEY go together."],
      ["KEYRACK_METER_URL", "https://m.example", "KEYRACK_METER_URL needs KEYRACK_PUBLIC_URL: its events name it."],
      ["KEYRACK_BOOTSTRAP_TOKEN", "short", "The bootstrap token is too short: it needs at least 22 random characters."],
    ] as const;
    const { settings } = load(Object.fromEntries(rules));
    expect(() => requireConsistent(settings)).toThrow(rules.map(([, , rule]) => rule).join(" "));
  });

  it("and variables that the CLI and the library read are known", () => {
    const sources = filesIn("src", ".ts").map((file) => readText(file));
    const read = sources.flatMap((text) => [...text.matchAll(/\benv\.(KEYRACK_\w+)/g)].map(([, name]) => [name, ""]));
    expect(read.length).toBeGreaterThan(0);
    expect(load(Object.fromEntries(read)).warnings).toEqual([]);
  });

  it("ignore the KEYRACK_PORT that Kubernetes sets for a service named keyrack", () => {
    const { settings, warnings } = load({ KEYRACK_PORT: "tcp://10.0.0.1:4747" });
    expect([settings.port, warnings.length]).toEqual([4747, 1]);
  });
});

describe("keyrack.toml", () => {
  it.each([
    ['regoin = "eu"', 'unknown setting "regoin". Did you mean "region"?'],
    ["port = [1]", "port must be a string, a number or a boolean"],
    ["port = ", "keyrack.toml:1:8: Invalid TOML"],
  ])("is rejected with %s", (text, message) => {
    using at = tempDir();
    writeFileSync(join(at.dir, "keyrack.toml"), `${text}\n`);
    expect(() => loadSettings({ env: {}, cwd: at.dir })).toThrow(message);
  });
});
