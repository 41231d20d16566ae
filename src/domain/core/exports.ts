// Exports: streams of lines that are read in pieces as their client takes them. Only a few of an owner run, and each
// piece is charged to its owner until the client wants the next one.
import { yieldToEventLoop } from "../../platform/event-loop.ts";
import { ownerOf, type Vendor } from "./actor.ts";
import type { Ctx } from "./context.ts";
import { recheckEvery } from "./credential-end.ts";
import { MINUTE_MS } from "../../kernel/durations.ts";

/** A piece has about this length. */
const PIECE_CHARS = 256 * 1024;
const RETRY_MS = MINUTE_MS;
/** How often to check the credential of an export whose client reads slowly. */
const RECHECK_MS = 5_000;

export type Export = {
  /** Whole lines. */
  pieces: AsyncIterable<string>;
  /** Aborted where the credential has ended, or the export must make room for other owners. */
  cut: AbortSignal;
  /** To be called when the stream has closed. */
  ended: () => void;
};

type Pieces = AsyncGenerator<string, void>;

/** `read` yields whole lines. If the first read fails, the response is an error. */
export async function startExport(ctx: Ctx<Vendor>, name: string, read: Pieces): Promise<Export> {
  const release = begin(ctx, name);
  const cut = new AbortController();
  const pieces = charged(ctx, read, () => cut.abort());
  const stopChecking = recheckEvery(RECHECK_MS, ctx, () => cut.abort());
  // Needed even if nothing was read from the stream, as with HEAD: its first piece has been charged.
  const ended = (): void => {
    stopChecking();
    release();
    pieces.return().catch(() => {});
  };
  try {
    const first = await pieces.next();
    return { pieces: continued(first, pieces), cut: cut.signal, ended };
  } catch (error) {
    ended();
    throw error;
  }
}

/** An export reads on for as long as its client takes what it reads, so only a few run; of test a quarter of them. */
function begin({ services, actor }: Ctx<Vendor>, name: string): () => void {
  const running = services.shares.of("exports");
  const owner = ownerOf(actor);
  const { share } = running.limits;
  const limit = owner.evictedFirst ? share / 4 : share;
  if (running.usedBy(owner) >= limit) {
    running.countRefusal(owner);
    throw services.throttles.refusal({ name, limit, windowMs: RETRY_MS });
  }
  running.take(owner);
  return () => running.release(owner);
}

/** `cut` ends the export to make room. */
async function* charged(ctx: Ctx<Vendor>, read: Pieces, cut: () => void): Pieces {
  const { services, actor } = ctx;
  const { largeResponses, shutdown } = services;
  for await (const piece of read) {
    if (shutdown.signal.aborted) throw new Error("the server is stopping");
    await ctx.requireStillValid?.(); // reading it, or the client taking the one before, may have taken long
    const release = largeResponses.charge(ownerOf(actor), {}, Buffer.byteLength(piece), cut);
    try {
      yield piece;
    } finally {
      release();
    }
    await yieldToEventLoop();
  }
}

async function* continued(first: IteratorResult<string, void>, others: Pieces): Pieces {
  if (!first.done) yield first.value;
  yield* others;
}

/** Lines, some at a time: one may be large. */
export function* piecesOf<T>(items: Iterable<T>, lineOf: (item: T) => string): Generator<string> {
  let piece = "";
  for (const item of items) {
    piece += lineOf(item);
    if (piece.length < PIECE_CHARS) continue;
    yield piece;
    piece = "";
  }
  if (piece !== "") yield piece;
}
