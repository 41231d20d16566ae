// The protocol of keyrack.sock, one JSON document per line:
//
//   → {"id":1,"op":"mail.list","args":{…}}
//   ← {"id":1,"progress":…}            zero or more
//   ← {"id":1,"value":…}               or {"id":1,"error":{"message":"…","exit_code":1}}
import type { Socket } from "node:net";
import { join } from "node:path";

export type Request = { id: number; op: string; args: Record<string, unknown> };
export type Reply = { id: number; progress?: unknown; value?: unknown; error?: { message: string; exit_code: number } };

/** Linux's limit for the path of a Unix socket, without the terminating zero. */
const SOCKET_PATH_MAX = 107;
const LINE_MAX_CHARS = 1 << 20;

/** Null if the path of the data dir is too long for a socket. */
export function socketPath(dir: string): string | null {
  const path = join(dir, "keyrack.sock");
  return Buffer.byteLength(path) > SOCKET_PATH_MAX ? null : path;
}

/** Calls `onLine` for each line. Closes the connection on a line that is too long. */
export function readLines(socket: Socket, onLine: (line: string) => void, maxChars = LINE_MAX_CHARS): void {
  let pending = "";
  socket.setEncoding("utf8");
  socket.on("data", (chunk: string) => {
    const lines = (pending + chunk).split("\n");
    pending = lines.pop() ?? "";
    for (const line of lines) if (line !== "") onLine(line);
    if (pending.length > maxChars) socket.destroy(new Error("a line is too long"));
  });
}

export function writeLine(socket: Socket, message: Request | Reply): void {
  if (socket.writable) socket.write(`${JSON.stringify(message)}\n`);
}
