// The backup hook: it ends in any case, so that the next backup can be made.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { runHook } from "../../src/backup/hook.ts";
import { testServices } from "../../harness/instances/test-services.ts";
import { tempDir } from "../../harness/processes/cli.ts";
import { until } from "../../harness/waiting.ts";

const LIMITS = { maxMs: 60_000, killMs: 60_000, stderrMs: 60_000 };

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z ");
  } catch {
    return false;
  }
}

const pidIn = (dir: string): number => Number(readFileSync(join(dir, "pid"), "utf8"));

describe("a backup hook", () => {
  it("that ignores SIGTERM is killed when the server stops", async () => {
    using at = tempDir();
    const backup_hook = `sh -c 'trap "" TERM; echo $$ > "$1/pid"; while :; do sleep 1; done' x`;
    await using fixture = await testServices("sqlite", { flags: { backup_hook } });
    const abort = new AbortController();
    const result = runHook(fixture.services, "an-id", at.dir, abort.signal, { ...LIMITS, killMs: 1 });
    await until(() => existsSync(join(at.dir, "pid")) && pidIn(at.dir) > 0);
    abort.abort();
    expect(await result).toEqual({ ok: false, code: null, message: expect.stringContaining("SIG") as string });
    await until(() => !isAlive(pidIn(at.dir)));
  });

  it("is ended when it takes too long", async () => {
    using at = tempDir();
    await using fixture = await testServices("sqlite", { flags: { backup_hook: "sleep 600; echo" } });
    const result = await runHook(fixture.services, "an-id", at.dir, undefined, { ...LIMITS, maxMs: 1 });
    expect(result).toMatchObject({ ok: false, code: null, message: "it ended with SIGTERM" });
  });

  it("is finished although a process in the background keeps its stderr open", async () => {
    using at = tempDir();
    const backup_hook = `sh -c 'setsid sh -c "echo \\$\\$ > \\"$1/pid\\"; exec sleep 600" & true' x`;
    await using fixture = await testServices("sqlite", { flags: { backup_hook } });
    const limits = { ...LIMITS, stderrMs: 1 };
    expect(await runHook(fixture.services, "an-id", at.dir, undefined, limits)).toEqual({
      ok: true,
      code: 0,
      message: null,
    });
    await until(() => existsSync(join(at.dir, "pid")) && pidIn(at.dir) > 0);
    expect(isAlive(pidIn(at.dir))).toBe(true); // not in the hook's group, and not ours to end
    process.kill(pidIn(at.dir));
  });
});
