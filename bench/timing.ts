// Does the duration of a login reveal whether an address has an account? Known and unknown addresses in turn, wrong
// passwords, the real cost of hashing, over HTTP; the medians must be within five per cent of each other.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startInstance, type RunningInstance } from "../src/server/start.ts";
import { loadSettings } from "../src/config/load.ts";
import { silentLog } from "../src/platform/log.ts";
import { median, type Row } from "./report.ts";

const TRIES = 200;

async function post(app: RunningInstance, path: string, body: object): Promise<number> {
  const response = await fetch(app.url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  await response.arrayBuffer();
  return response.status;
}

async function tryMs(app: RunningInstance, email: string): Promise<number> {
  const start = performance.now();
  const status = await post(app, "/v1/auth/sessions", { email, password: "not the password" });
  const ms = performance.now() - start;
  if (status !== 401) throw new Error(`a wrong password was answered ${status}`);
  return ms;
}

export type Timing = { known_ms: number; unknown_ms: number; ratio: number };

export async function measureTiming(tries = TRIES): Promise<Timing> {
  const data_dir = mkdtempSync(join(tmpdir(), "keyrack-bench-"));
  const { settings } = loadSettings({ env: {}, flags: { data_dir, port: "0", throttle: "off", mail_url: "log:" } });
  const app = await startInstance({ settings, log: silentLog });
  try {
    await post(app, "/v1/auth/users", { email: "known@example.com", password: "correct horse battery staple" });
    for (let n = 0; n < 10; n++) await tryMs(app, "warm-up@example.com");
    const known: number[] = [];
    const unknown: number[] = [];
    for (let n = 0; n < tries; n++) {
      // Alternate which goes first, so that noise affects both alike.
      const first = n % 2 === 0;
      if (first) known.push(await tryMs(app, "known@example.com"));
      unknown.push(await tryMs(app, `nobody-${n}@example.com`));
      if (!first) known.push(await tryMs(app, "known@example.com"));
    }
    const [known_ms, unknown_ms] = [median(known), median(unknown)];
    return { known_ms, unknown_ms, ratio: known_ms / unknown_ms };
  } finally {
    await app.stop();
    rmSync(data_dir, { recursive: true, force: true });
  }
}

export async function timing(): Promise<Row[]> {
  const { known_ms, unknown_ms, ratio } = await measureTiming();
  return [
    {
      name: "timing/login",
      ours: known_ms,
      peer: unknown_ms,
      // The slower divided by the faster.
      ratio: Math.max(ratio, 1 / ratio),
      target: "<= 1.05",
      unit: "ms",
    },
  ];
}
