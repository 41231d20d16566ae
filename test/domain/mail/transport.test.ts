// The file transport: one private .eml file per message, kept for a week.
import fs, { mkdtempSync, readdirSync, rmSync, statSync, utimesSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
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

  it("has not delivered a message that a power cut could still take: the outbox forgets what was delivered", async () => {
    const root = mkdtempSync(join(tmpdir(), "keyrack-mail-"));
    const { fsyncSync } = fs;
    const patch = (sync: unknown): void => {
      Object.assign(fs, { fsyncSync: sync });
      syncBuiltinESMExports();
    };
    try {
      const transport = fileTransport(join(root, "mail"), "Keyrack <keys@example.com>");
      patch(() => {
        throw new Error("EIO");
      });
      await expect(transport.deliver(mail("one"))).rejects.toThrow("EIO");
      patch(fsyncSync);
      await transport.deliver(mail("one"));
      expect(readdirSync(join(root, "mail"))).toEqual(["2026-11-14T12-00-00-000Z-one.eml"]);
    } finally {
      patch(fsyncSync);
      rmSync(root, { recursive: true, force: true });
    }
  });
});
