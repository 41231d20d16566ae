// Runs an unpacked image as an engine would: read-only root, unprivileged user, one volume.
import { type ChildProcess } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, mkdtempSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { unpackRoot, type Platform } from "../oci-image.ts";
import { startInRoot, type Root } from "./chroot.ts";
import type { Ran } from "./cli.ts";

type Volume = { owner: [number, number]; mode: number };
/** What an engine makes of a new volume: it takes over the image's owner and mode. */
export const NEW_VOLUME: Volume = { owner: [4747, 4747], mode: 0o700 };

export class Container {
  readonly root: Root;
  readonly #command: string[];
  constructor(platform: Platform, work: string, { owner, mode }: Volume, env: Record<string, string> = {}) {
    const dir = mkdtempSync(join(work, "container-"));
    const { Env, User, Entrypoint, Cmd } = platform.config.config;
    const own = Object.fromEntries(Env.map((each) => each.split("=", 2) as [string, string]));
    this.root = { dir: join(dir, "root"), volume: join(dir, "volume"), user: User, env: { ...own, ...env } };
    this.#command = [...Entrypoint, ...Cmd];
    unpackRoot(platform, this.root.dir);
    mkdirSync(this.root.volume);
    chownSync(this.root.volume, ...owner);
    chmodSync(this.root.volume, mode);
  }

  run(command: string[], env: Record<string, string> = {}): Promise<Ran> {
    const child = startInRoot({ ...this.root, env: { ...this.root.env, ...env } }, command);
    const ran: Ran = { code: null, stdout: "", stderr: "" };
    child.stdout?.on("data", (chunk: Buffer) => (ran.stdout += chunk.toString()));
    child.stderr?.on("data", (chunk: Buffer) => (ran.stderr += chunk.toString()));
    return new Promise((resolve) => child.on("close", (code) => resolve({ ...ran, code })));
  }

  /** Starts what the image starts, on a free port, and waits until it listens. */
  async serve(): Promise<Service> {
    const root = { ...this.root, env: { ...this.root.env, KEYRACK_PORT: "0" } };
    const child = startInRoot(root, [...this.#command, "--json"]);
    const exited = new Promise<number | null>((resolve) => child.on("exit", resolve));
    const url = (await listening(child)).replace("0.0.0.0", "127.0.0.1");
    const stop = (): Promise<number | null> => {
      child.kill("SIGTERM");
      return exited;
    };
    return { url, stop, cli: (args, env = {}) => this.run(["keyrack", ...args], { KEYRACK_URL: url, ...env }) };
  }
}

/** `cli` runs the image's own commands beside the server; `stop` resolves with the exit code. */
type Service = {
  url: string;
  cli(args: string[], env?: Record<string, string>): Promise<Ran>;
  stop(): Promise<number | null>;
};

async function listening(child: ChildProcess): Promise<string> {
  let errors = "";
  child.stderr?.on("data", (chunk: Buffer) => (errors += chunk.toString()));
  const line = await new Promise<string>((resolve, reject) => {
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).once("line", resolve);
    child.once("exit", (code) => reject(new Error(`it ended with ${code}: ${errors}`)));
  });
  return (JSON.parse(line) as { url: string }).url;
}

/** Mints a key in a new workspace. Throws when a command fails. */
export async function mintKey(service: Service): Promise<string> {
  const call = async (args: string[], env?: Record<string, string>): Promise<Record<string, unknown>> => {
    const { code, stdout, stderr } = await service.cli([...args, "--json"], env);
    if (code !== 0) throw new Error(`${args.join(" ")}: ${code} ${stderr}`);
    return JSON.parse(stdout) as Record<string, unknown>;
  };
  const workspace = await call(["workspace", "create", "--name", "Acme", "--slug", "acme"]);
  const { key } = workspace.secret_key as { key: string };
  const as = { KEYRACK_SECRET_KEY: key };
  const project = await call(["project", "create", "--name", "P", "--slug", "pro-ject"], as);
  const tenant = await call(["tenant", "create", "--external-id", "t"], as);
  const flags = ["--project-id", String(project.id), "--tenant-id", String(tenant.id), "--env", "live"];
  return String((await call(["key", "create", ...flags], as)).key);
}
