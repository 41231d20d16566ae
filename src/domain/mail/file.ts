// Writes each message to an .eml file, readable by its owner only and deleted after a week. Caution: this folder is a
// mailbox, and the only place where live links are stored in plain text.
import { mkdir, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { MailTransport } from "./message.ts";
import { toBytes } from "./mime.ts";
import { DAY_MS } from "../../kernel/durations.ts";

const KEEP_MS = 7 * DAY_MS;

export function fileTransport(dir: string, from: string): MailTransport {
  return {
    async deliver(mail) {
      await mkdir(dir, { recursive: true, mode: 0o700 });
      // Named by the message, so that a second delivery replaces the first.
      const name = `${new Date(mail.date).toISOString().replace(/[:.]/g, "-")}-${mail.id}`;
      const draft = join(dir, `.${name}.tmp`);
      await writeFile(draft, await toBytes(mail, from), { mode: 0o600 });
      await rename(draft, join(dir, `${name}.eml`));
    },
    async prune() {
      const names = await readdir(dir).catch(() => []);
      for (const name of names.filter((each) => /\.(eml|tmp)$/.test(each))) {
        const file = join(dir, name);
        // Date.now() and not our clock: mtime comes from the wall clock.
        const { mtimeMs } = await stat(file).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY }));
        if (Date.now() - mtimeMs > KEEP_MS) await rm(file, { force: true });
      }
    },
    close() {},
  };
}
