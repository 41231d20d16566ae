// The running instance's side of keyrack.sock. Only its owner can connect: the folder is 0700 and the socket 0600.
import { chmodSync, rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { join } from "node:path";
import type { Services } from "../../domain/core/context.ts";
import { Failure } from "../../kernel/errors.ts";
import { operations, type Operation } from "../operator-commands.ts";
import { readLines, SOCKET_NAME, SOCKET_PATH_MAX, writeLine, type Ask } from "./protocol.ts";

export type OperatorSocket = { close(): Promise<void> };

const closedDoor: OperatorSocket = { close: async () => {} };

/** Opens the door, or says in the log why there is none: requests are served either way. */
export async function listenOnOperatorSocket(
  services: Services,
  dir: string,
  table: Record<string, Operation> = operations,
): Promise<OperatorSocket> {
  const path = join(dir, SOCKET_NAME);
  if (Buffer.byteLength(path) > SOCKET_PATH_MAX) {
    services.log.warn("no operator socket: the data dir's path is too long for one", { path });
    return closedDoor;
  }
  if (await somebodyAnswers(path)) {
    services.log.warn("no operator socket: another instance has it", { path });
    return closedDoor;
  }
  rmSync(path, { force: true }); // left behind by a process that died
  const sockets = new Set<Socket>();
  const running = new Set<Promise<void>>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    readLines(socket, (line) => {
      const work = answer(services, socket, line, table).finally(() => running.delete(work));
      running.add(work);
    });
  });
  try {
    await listening(server, path);
    chmodSync(path, 0o600);
  } catch (error) {
    services.log.warn("no operator socket", { error: (error as Error).message });
    return closedDoor;
  }
  return {
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      await Promise.allSettled(running);
      for (const socket of sockets) socket.destroySoon();
      await closed;
      rmSync(path, { force: true });
    },
  };
}

function listening(server: Server, path: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(path, () => resolve());
  });
}

function somebodyAnswers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.on("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}

async function answer(
  services: Services,
  socket: Socket,
  line: string,
  table: Record<string, Operation>,
): Promise<void> {
  let id = 0;
  try {
    const ask = JSON.parse(line) as Ask;
    ({ id } = ask);
    const operation = Object.hasOwn(table, ask.op) ? table[ask.op] : undefined;
    if (!operation) {
      const message = `This instance does not know "${ask.op}". It may be another version of Keyrack.`;
      return writeLine(socket, { id, error: { message, exit_code: 1 } });
    }
    const value = await operation(services, ask.args ?? {}, (progress) => writeLine(socket, { id, progress }));
    writeLine(socket, { id, value: value ?? null });
  } catch (error) {
    const { message, exitCode } = error as { message: string; exitCode?: number };
    if (!(error instanceof Failure)) services.log.error("operator's request failed", { error: message });
    writeLine(socket, { id, error: { message, exit_code: exitCode ?? 1 } });
  }
}
