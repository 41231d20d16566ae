// Stops the parser of a connection that is going to be closed, within the piece that it has read.
// Caution: `onIncoming` is an internal of node. If it returns 2, the parser takes what follows for another protocol
// and skips it. test/http/pipelining.test.ts counts what is parsed.
import type { Socket } from "node:net";

const SKIP_REST = 2;

type Parsed = Socket & { parser?: { onIncoming?: unknown } | null };

export function stopParsing(socket: Socket): void {
  const { parser } = socket as Parsed;
  if (parser) parser.onIncoming = () => SKIP_REST;
}
