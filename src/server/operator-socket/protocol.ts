// What goes over keyrack.sock, one JSON document a line:
//
//   → {"id":1,"op":"mail.list","args":{…}}
//   ← {"id":1,"progress":…}            any number of times
//   ← {"id":1,"value":…}               or {"id":1,"error":{"message":"…","exit_code":1}}
import type { Socket } from "node:net";

export type Ask = { id: number; op: string; args: Record<string, unknown> };
export type Reply = { id: number; progress?: unknown; value?: unknown; error?: { message: string; exit_code: number } };

export const SOCKET_NAME = "keyrack.sock";
/** Linux's limit for the address of a unix socket, without its final zero. */
export const SOCKET_PATH_MAX = 107;
const LINE_MAX = 1 << 20;

/** Calls `take` for each line. A peer that sends an endless line is cut off. */
export function readLines(socket: Socket, take: (line: string) => void, lineMax = LINE_MAX): void {
  let pending = "";
  socket.setEncoding("utf8");
  socket.on("data", (chunk: string) => {
    const lines = (pending + chunk).split("\n");
    pending = lines.pop() ?? "";
    for (const line of lines) if (line !== "") take(line);
    if (pending.length > lineMax) socket.destroy(new Error("a line is too long"));
  });
}

export function writeLine(socket: Socket, message: Ask | Reply): void {
  if (socket.writable) socket.write(`${JSON.stringify(message)}\n`);
}
