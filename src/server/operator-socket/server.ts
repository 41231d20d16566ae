// The server side of keyrack.sock. Only the user that runs the server can connect: the folder is 0700, the socket 0600.
import { chmodSync, rmSync } from "node:fs";
import { connect, createServer, type Socket } from "node:net";
import type { Services } from "../../domain/core/context.ts";
import { Failure } from "../../kernel/errors.ts";
import { ExitError } from "../../kernel/exit-error.ts";
import { listen } from "../../platform/listen.ts";
import { operatorCommands, type OperatorCommand } from "../operator-commands.ts";
import { readLines, socketPath, writeLine, type Request } from "./protocol.ts";

export type OperatorSocket = { close(): Promise<void> };

const noSocket: OperatorSocket = { close: async () => {} };

/** Never throws: without the socket the instance still serves requests, so a failure is only logged. */
export async function listenOnOperatorSocket(services: Services, dir: string): Promise<OperatorSocket> {
  const path = socketPath(dir);
  if (path === null) {
    services.log.warn("no operator socket: the path of the data dir is too long", { dir });
    return noSocket;
  }
  if (await isListening(path)) {
    services.log.warn("no operator socket: another instance is using it", { path });
    return noSocket;
  }
  const sockets = new Set<Socket>();
  const commands = new Set<Promise<void>>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
    socket.on("error", () => socket.destroy());
    readLines(socket, (line) => {
      const command = respond(services, socket, line).finally(() => commands.delete(command));
      commands.add(command);
    });
  });
  const onError = ({ message }: Error): void =>
    services.log.error("a connection was not accepted", { path, error: message });
  try {
    rmSync(path, { force: true }); // left by a process that crashed
    await listen(server, { path }, onError);
    chmodSync(path, 0o600);
  } catch (error) {
    services.log.warn("no operator socket", { error: (error as Error).message });
    return noSocket;
  }
  return {
    async close() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      await Promise.allSettled(commands);
      for (const socket of sockets) socket.destroySoon();
      await closed;
      rmSync(path, { force: true });
    },
  };
}

function isListening(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.on("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.on("error", () => resolve(false));
  });
}

async function respond(services: Services, socket: Socket, line: string): Promise<void> {
  let id = 0;
  try {
    const request = JSON.parse(line) as Request;
    ({ id } = request);
    const command = Object.hasOwn(operatorCommands, request.op)
      ? (operatorCommands as Record<string, OperatorCommand>)[request.op]
      : undefined;
    if (!command) {
      const message = `This instance does not know the command "${request.op}". It may run another version of Keyrack.`;
      return writeLine(socket, { id, error: { message, exit_code: 1 } });
    }
    const value = await command(services, request.args ?? {}, (progress) => writeLine(socket, { id, progress }));
    writeLine(socket, { id, value: value ?? null });
  } catch (error) {
    const { message } = error as Error;
    if (!(error instanceof Failure)) services.log.error("operator command failed", { error: message });
    writeLine(socket, { id, error: { message, exit_code: error instanceof ExitError ? error.exitCode : 1 } });
  }
}
