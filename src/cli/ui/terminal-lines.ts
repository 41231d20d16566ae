// A stream of lines for a terminal. Names in it come from customers: they must not control the terminal.
import { Writable } from "node:stream";
import { StringDecoder } from "node:string_decoder";
import { escapeLines } from "./output.ts";

export function terminalLines(out: Pick<Writable, "write"> = process.stdout): Writable {
  const decoder = new StringDecoder();
  let held = ""; // a line may end in the next chunk
  return new Writable({
    write: (bytes: Buffer, _encoding, done) => {
      const text = held + decoder.write(bytes);
      held = text.endsWith("\r") ? "\r" : "";
      out.write(escapeLines(held ? text.slice(0, -1) : text), done);
    },
  });
}
