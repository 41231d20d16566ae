// When the -wal is copied into the database and overwritten from its start. Commits wait, so most is copied before.
import { statSync } from "node:fs";
import { MIB } from "../../kernel/sizes.ts";
import type { SqliteReader } from "./reader.ts";
import { WalSync } from "./wal-sync.ts";

/** A page with its header. */
const FRAME_BYTES = 4_096 + 24;
const CHECKPOINT_BYTES = 4 * MIB;
const CHECKPOINT_COMMITS = 200;
/** From here on the checkpoint waits for the copy: the -wal must not grow without end. */
const COPYING_COMMITS = 300;
/** A checkpoint that readers kept from restarting the -wal is repeated: they leave only short gaps. */
const RETRY_MS = 25;
/**
 * Readers keep the -wal from being restarted: once it holds as much, each checkpoint waits for them, which also slows
 * the writes that let it grow. But only rarely for one that reads for long, such as a backup, or where that has not
 * helped for long.
 */
const WAIT_BYTES = 16 * MIB;
const WAIT_MS = 25;
const READER_MS = 1_000;
const GIVE_UP_MS = 5_000;
const WAIT_AGAIN_MS = 500;
/** A -wal is made smaller only when there was no commit for this long: under load that would delay writes. */
const TRUNCATE_IDLE_MS = 5_000;

type Options = { readonly file: string; readonly reader: SqliteReader; readonly walSync: WalSync };

export class Checkpoints {
  readonly #file: string;
  readonly #reader: SqliteReader;
  readonly #walSync: WalSync;
  /** A second thread, once there is enough to copy. */
  #copier: WalSync | undefined;
  #copying: Promise<void> | undefined;
  #hasCopied = false;
  #commits = 0;
  /** When the last commit was, by performance.now(). */
  #committedAt = 0;
  #walAtCheckpoint = 0;
  /** When the last checkpoint was that could not restart the -wal, and the first since one that could. */
  #busyAt: number | undefined;
  #busySince: number | undefined;
  /** What the -wal held when the last checkpoint could not restart it; 0 if it did. */
  #frames = 0;
  /** How far the last checkpoint came, and when one last came further: the oldest reader was another one by then. */
  #checkpointed = 0;
  #movedAt = 0;
  /** When a checkpoint last waited for readers, by performance.now(). */
  #waitedAt = 0;

  constructor({ file, reader, walSync }: Options) {
    this.#file = file;
    this.#reader = reader;
    this.#walSync = walSync;
  }

  countCommit(): void {
    this.#commits++;
    this.#committedAt = performance.now();
  }

  /** Counts commits as well as bytes: a restarted -wal is overwritten in place and does not grow. */
  async runIfDue(idle = false, now = performance.now()): Promise<void> {
    const bytes = this.walBytes();
    const grown = bytes - this.#walAtCheckpoint;
    const truncate = idle && bytes > CHECKPOINT_BYTES && now - this.#committedAt >= TRUNCATE_IDLE_MS;
    const isLarge = this.#frames * FRAME_BYTES >= WAIT_BYTES;
    const mayHelp = isLarge && now - this.#movedAt < READER_MS && now - (this.#busySince ?? now) < GIVE_UP_MS;
    const retry = this.#busyAt !== undefined && (mayHelp || now - this.#busyAt >= RETRY_MS);
    if (!truncate && !retry && grown < CHECKPOINT_BYTES && this.#commits < (idle ? 1 : CHECKPOINT_COMMITS)) return;
    if (!idle && !retry && !this.#hasCopied && grown < WAIT_BYTES && this.#commits < COPYING_COMMITS) {
      this.#copying ??= this.#copy();
      return;
    }
    await this.#copying;
    const waits = mayHelp || (isLarge && now - this.#waitedAt >= WAIT_AGAIN_MS);
    if (waits) this.#waitedAt = now;
    const { busy, log, checkpointed } = await this.#reader.withoutSnapshot(() =>
      truncate ? this.#walSync.truncate() : this.#walSync.checkpoint(waits ? WAIT_MS : 0),
    );
    this.#busyAt = busy === 0 ? undefined : now;
    this.#busySince = busy === 0 ? undefined : (this.#busySince ?? now);
    this.#frames = busy === 0 ? 0 : log;
    if (checkpointed !== this.#checkpointed) this.#movedAt = now;
    this.#checkpointed = checkpointed;
    this.#commits = 0;
    this.#hasCopied = false;
    this.#walAtCheckpoint = this.walBytes();
  }

  /** bench: neighbours/claim */
  async #copy(): Promise<void> {
    this.#copier ??= new WalSync(this.#file);
    await this.#copier.copy().catch(() => {}); // the checkpoint meets the same error, and needs no copy
    this.#hasCopied = true;
    this.#copying = undefined;
  }

  walBytes(): number {
    return statSync(`${this.#file}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  }

  async close(): Promise<void> {
    await this.#copying;
    await this.#copier?.close().catch(() => {});
  }
}
