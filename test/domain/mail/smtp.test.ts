// SMTP against a real server: refused recipients, dropped connections, and retries that succeed.
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { SMTPServer } from "smtp-server";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { deliverDue, listMail, mailState, retryMail, showMail } from "../../../src/domain/mail/outbox.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { account, freshEmail, PASSWORD } from "../../../harness/instances/people.ts";
import { testInstance, type TestInstance } from "../../../harness/instances/test-instance.ts";

const MINUTE = 60_000;
type Mood = "accepts" | "refuses" | "drops" | "busy";

class MailServer {
  mood: Mood = "accepts";
  readonly got: { to: string[]; message: string }[] = [];
  tries = 0;
  readonly #server: SMTPServer;

  constructor() {
    this.#server = new SMTPServer({
      authOptional: true,
      disabledCommands: ["STARTTLS"],
      logger: false,
      onRcptTo: (_address, _session, callback) => {
        this.tries++;
        if (this.mood === "refuses") callback(Object.assign(new Error("no such mailbox"), { responseCode: 550 }));
        else if (this.mood === "busy") callback(Object.assign(new Error("try later"), { responseCode: 451 }));
        else callback();
      },
      onData: (stream, session, callback) => {
        if (this.mood === "drops") {
          for (const connection of this.#server.connections) connection._socket?.destroy();
          return;
        }
        text(stream).then((message) => {
          this.got.push({ to: session.envelope.rcptTo.map(({ address }) => address), message });
          callback();
        }, callback);
      },
    });
    this.#server.on("error", () => {});
  }

  listen(): Promise<number> {
    return new Promise((resolve) => {
      const server = this.#server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port));
    });
  }

  close(): Promise<void> {
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }
}

for (const back of backends) {
  describe(`mail over SMTP on ${back}`, () => {
    let server: MailServer;
    let r: TestInstance;
    beforeEach(async () => {
      server = new MailServer();
      const mail_url = `smtp://127.0.0.1:${await server.listen()}`;
      r = await testInstance(back, { flags: { mail_url, mail_from: "Keyrack <keys@example.com>" } });
    });
    afterEach(async () => {
      await r[Symbol.asyncDispose]();
      await server.close();
    });
    const signUp = async (email = freshEmail()): Promise<string> => {
      await account(r, email, PASSWORD, false);
      await r.app.idle();
      return email;
    };
    const only = async () => {
      const { data } = await listMail(r.app.services, {});
      expect(data).toHaveLength(1);
      return data[0] as (typeof data)[number];
    };
    /** Moves the clock to when the next try is due, and lets the worker run. */
    const nextTry = async (): Promise<void> => {
      const { next_at } = await only();
      r.clock.set(Date.parse(String(next_at)));
      await deliverDue(r.app.services);
    };
    const sealed = async (): Promise<unknown> => (await r.sql("select sealed_message from outbox"))[0]?.sealed_message;

    it("a message goes out at once, plain and with one link, and its body is gone", async () => {
      const email = await signUp();
      expect(server.got).toHaveLength(1);
      expect(server.got[0]?.to).toEqual([email]);
      const message = server.got[0]?.message ?? "";
      const mail = await only();
      expect(mail).toMatchObject({ state: "sent", attempts: 1, kind: "email_verification", last_error: null });
      expect(message).toMatch(/^From: Keyrack <keys@example\.com>\r$/m);
      expect(message).toMatch(new RegExp(`^To: ${email}\r$`, "m"));
      expect(message).toMatch(/^Content-Type: text\/plain; charset=utf-8/m);
      expect(message).toMatch(/^Auto-Submitted: auto-generated\r$/m);
      expect(message).toContain(`Message-ID: ${mail.message_id}`);
      expect(message.match(/https?:\/\//g)).toHaveLength(1);
      expect(await sealed()).toBeNull();
    });

    it("a dropped connection is tried again after half a minute, then a minute, with the same Message-ID", async () => {
      server.mood = "drops";
      const email = await signUp();
      const first = await only();
      expect(first).toMatchObject({ state: "queued", attempts: 1 });
      const wait = Date.parse(String(first.next_at)) - r.clock.now();
      expect(wait).toBeGreaterThanOrEqual(27_000);
      expect(wait).toBeLessThanOrEqual(33_000);
      await deliverDue(r.app.services); // not due yet
      expect(server.tries).toBe(1);
      await nextTry();
      expect(server.tries).toBe(2);
      const second = Date.parse(String((await only()).next_at)) - r.clock.now();
      expect(second).toBeGreaterThanOrEqual(54_000);
      expect(second).toBeLessThanOrEqual(66_000);
      server.mood = "accepts";
      await nextTry();
      expect(await only()).toMatchObject({ state: "sent", attempts: 3 });
      expect(server.got).toHaveLength(1);
      expect(server.got[0]?.to).toEqual([email]);
      expect(server.got[0]?.message).toContain(first.message_id);
    });

    it("a recipient refused for good is a dead letter at once; a retry by hand can still deliver it", async () => {
      server.mood = "refuses";
      await signUp();
      const dead = await only();
      expect(dead).toMatchObject({ state: "dead", attempts: 1 });
      expect(dead.last_error).toContain("no such mailbox");
      expect(await mailState(r.app.services)).toEqual({ queued: 0, dead: 1 });
      expect(r.logs.join("")).toContain("mail given up");
      await deliverDue(r.app.services);
      expect(server.tries).toBe(1);
      expect(await showMail(r.app.services, dead.id, false)).not.toHaveProperty("text");
      expect((await showMail(r.app.services, dead.id, true)).text).toContain("/#/verify?token=krev_");
      server.mood = "accepts";
      await retryMail(r.app.services, dead.id);
      await r.app.idle();
      expect(await only()).toMatchObject({ state: "sent" });
      await expect(retryMail(r.app.services, dead.id)).rejects.toThrow("gone out already");
      await expect(retryMail(r.app.services, r.app.services.newId())).rejects.toThrow("No such message");
    });

    it("a server that stays busy is asked less and less often, and given up when the link expires", async () => {
      server.mood = "busy";
      await account(r, freshEmail(), PASSWORD, false);
      await r.app.idle();
      const start = r.clock.now();
      const waits: number[] = [];
      for (;;) {
        const before = r.clock.now();
        await nextTry();
        const { state } = await only();
        waits.push(r.clock.now() - before);
        if (state !== "queued") break;
      }
      expect(await only()).toMatchObject({ state: "dead" });
      expect(r.clock.now() - start).toBe(24 * 60 * MINUTE); // when the verification link expires, to the millisecond
      expect(Math.max(...waits)).toBeLessThanOrEqual(66 * MINUTE);
      expect(server.tries).toBeGreaterThan(20);
    });

    it("a notice without a link is given up after 72 hours", async () => {
      server.mood = "accepts";
      const email = await signUp();
      const { data } = await listMail(r.app.services, {});
      await r.sql("update users set email_verified_at = 1 where email_key = $1", [email]);
      server.mood = "busy";
      await account(r, email, PASSWORD, false);
      await r.app.idle();
      const [row] = await r.sql("select created_at, give_up_at from outbox where state = 'queued'");
      expect(data).toHaveLength(1);
      expect(Number(row?.give_up_at) - Number(row?.created_at)).toBe(72 * 60 * MINUTE);
    });

    it("two workers on one outbox deliver a message once", async () => {
      const { services: instance } = r.app;
      server.mood = "busy";
      await signUp();
      server.mood = "accepts";
      const { next_at } = await only();
      r.clock.set(Date.parse(String(next_at)));
      await Promise.all([deliverDue(instance), deliverDue(instance), deliverDue(instance)]);
      expect(server.got).toHaveLength(1);
    });

    it("a workspace's name cannot start a header or a second line", async () => {
      const w = await r.workspace();
      const name = "Evil\r\nBcc: everybody@example.com\r\n\r\nÜber";
      await w.call("sk_owner", "PATCH /v1/workspace", { name });
      const guest = freshEmail();
      await w.call("sk_owner", "POST /v1/invites", { email: guest, role: "member" });
      await r.app.idle();
      expect(server.got).toHaveLength(1);
      expect(server.got[0]?.to).toEqual([guest]);
      const [head = ""] = (server.got[0]?.message ?? "").split("\r\n\r\n");
      expect(head).not.toMatch(/^Bcc:/im);
      expect(head).toMatch(/^Subject: .*=\?UTF-8\?/im);
    });
  });
}
