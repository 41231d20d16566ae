// The file transport: one private .eml file per message, kept for a week.
import fs, { mkdtempSync, readdirSync, rmSync, statSync, utimesSync } from "node:fs";
import { open, type FileHandle } from "node:fs/promises";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import { fileTransport } from "../../../src/domain/mail/transport.ts";
import { parseMail } from "../../../harness/instances/mailbox.ts";

const DATE = Date.UTC(2026, 10, 14, 12);
const mail = (id: string) => ({
  id,
  message_id: `<${id}@example.com>`,
  to: "ada@example.com",
  subject: "Grüße",
  text: "Hello\n\nhttp://localhost/#/verify?token=krev_abc\n",
  date: DATE,
});

describe("mail in files", () => {
  it("writes one private file per message, overwrites it on redelivery, and deletes it after seven days", async () => {
    const root = mkdtempSync(join(tmpdir(), "keyrack-mail-"));
    try {
      const dir = join(root, "mail");
      const transport = fileTransport(dir, "Keyrack <keys@example.com>");
      await transport.prune(); // no folder yet: nothing to do
      await transport.deliver(mail("one"));
      await transport.deliver(mail("one"));
      await transport.deliver(mail("two"));
      expect(readdirSync(dir).toSorted()).toEqual([
        "2026-11-14T12-00-00-000Z-one.eml",
        "2026-11-14T12-00-00-000Z-two.eml",
      ]);
      expect(statSync(dir).mode & 0o777).toBe(0o700);
      const file = join(dir, "2026-11-14T12-00-00-000Z-one.eml");
      expect(statSync(file).mode & 0o777).toBe(0o600);
      expect(parseMail(file)).toMatchObject({
        to: "ada@example.com",
        subject: "=?UTF-8?Q?Gr=C3=BC=C3=9Fe?=",
        link: "http://localhost/#/verify?token=krev_abc",
      });
      const old = (Date.now() - 7 * 86_400_000 - 60_000) / 1000;
      utimesSync(file, old, old);
      await transport.prune();
      expect(readdirSync(dir)).toEqual(["2026-11-14T12-00-00-000Z-two.eml"]);
    } finally {
      rmSync(root, { recursive: true, force: true });
    }
  });

  it("has delivered a message once its file, its name and those of new folders are synced, without blocking", async () => {
    const root = mkdtempSync(join(tmpdir(), "keyrack-mail-"));
    const dir = join(root, "data", "mail");
    const { fsyncSync } = fs;
    const { synced, failSync, restore } = await watchSync();
    const patchSync = (sync: unknown): void => {
      Object.assign(fs, { fsyncSync: sync });
      syncBuiltinESMExports();
    };
    try {
      const transport = fileTransport(dir, "Keyrack <keys@example.com>");
      patchSync(() => {
        throw new Error("a synchronous fsync blocks the event loop");
      });
      const deliverTwo = () => Promise.allSettled([transport.deliver(mail("one")), transport.deliver(mail("two"))]);
      failSync(statSync(root).ino);
      expect((await deliverTwo()).map(({ status }) => status)).toEqual(["rejected", "rejected"]);
      rmSync(join(root, "data"), { recursive: true });
      failSync(null);
      synced.length = 0;
      expect((await deliverTwo()).map(({ status }) => status)).toEqual(["fulfilled", "fulfilled"]);
      const files = readdirSync(dir).map((name) => join(dir, name));
      expect(files).toHaveLength(2);
      const inodes = [...files, dir, join(root, "data"), root].map((path) => statSync(path).ino);
      expect(new Set(synced)).toEqual(new Set(inodes));
      failSync(statSync(dir).ino);
      // The outbox forgets what was delivered, and a power cut could still take this away.
      await expect(transport.deliver(mail("three"))).rejects.toThrow("EIO");
      failSync(null);
      await transport.deliver(mail("three"));
      expect(readdirSync(dir)).toHaveLength(3);
    } finally {
      patchSync(fsyncSync);
      restore();
      rmSync(root, { recursive: true, force: true });
    }
  });
});

/** Records the inodes of what node:fs/promises syncs, and makes the sync of one fail. */
async function watchSync() {
  const handle = await open(tmpdir());
  const prototype = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  const synced: number[] = [];
  let failing: number | null = null;
  const spy = vi.spyOn(prototype, "sync").mockImplementation(async function (this: FileHandle) {
    const { ino } = await this.stat();
    if (ino === failing) throw new Error("EIO");
    synced.push(ino);
  });
  return {
    synced,
    failSync: (inode: number | null) => (failing = inode),
    restore: () => spy.mockRestore(),
  };
}
