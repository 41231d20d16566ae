// What an attack of the campaign `neighbours` gets, and what it is: a file of its own in this folder, listed in
// index.ts.
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { World } from "../../harness/instances/world.ts";
import type { Random } from "../../harness/random.ts";

export type Stage = {
  url: string;
  /** A stranger's workspace. */
  attacker: World;
  /** A workspace under attack, and the key for its test environment, which the attacker holds too. */
  victim: World;
  victimTestKey: string;
  random: Random;
  /** By how much to multiply the size of a flood. */
  strength: number;
  /** Aborted when the round ends. */
  stop: AbortSignal;
  /** A text that no other call has got. */
  fresh: () => string;
  /** Reports that the attack has succeeded. */
  broken: (what: string) => void;
};

export type Attack = {
  name: string;
  /** One burst, of seconds at most. Refusals are expected and ignored. */
  run(stage: Stage): Promise<void>;
};

/** Sends `count` requests, `width` at a time; a refusal or a lost connection is not the attack's concern. */
export async function flood(
  { stop, strength }: Pick<Stage, "stop" | "strength">,
  { count, width }: { count: number; width: number },
  send: (i: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const client = async (): Promise<void> => {
    while (next < count * strength && !stop.aborted) await send(next++).catch(() => {});
  };
  await Promise.all(Array.from({ length: width }, client));
}

/** How long connections are kept open; a weak flood closes them sooner. */
const OPEN_MS = 2_000;

/** Sends the same bytes on many connections at once, keeps them open for a while, and closes them. */
export async function keepOpen(
  { url, stop, strength }: Pick<Stage, "url" | "stop" | "strength">,
  connections: number,
  bytes: Buffer,
  localAddress?: string,
): Promise<void> {
  const { hostname: host, port } = new URL(url);
  const sockets: Socket[] = [];
  try {
    for (let i = 0; i < connections * strength && !stop.aborted; i++) {
      const socket = connect({ host, port: Number(port), ...(localAddress && { localAddress }) });
      sockets.push(socket);
      socket.on("error", () => {}).resume();
      await once(socket, "connect").catch(() => {});
      socket.write(bytes);
    }
    await sleep(OPEN_MS * Math.min(1, strength), undefined, { signal: stop }).catch(() => {});
  } finally {
    for (const socket of sockets) socket.destroy();
  }
}
