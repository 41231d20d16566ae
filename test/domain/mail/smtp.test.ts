// SMTP with a real server: rejected recipients, dropped connections, and reattempts.
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { SMTPServer } from "smtp-server";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { deliverDue, listMail, mailState, retryMail, showMail } from "../../../src/domain/mail/outbox.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { account, freshEmail, PASSWORD } from "../../../harness/instances/people.ts";
import { testInstance, type TestInstance } from "../../../harness/instances/test-instance.ts";
import { MINUTE_MS } from "../../../src/kernel/durations.ts";

type Behaviour = "accepts" | "rejects" | "drops" | "busy";

class MailServer {
  behaviour: Behaviour = "accepts";
  readonly received: { to: string[]; message: string }[] = [];
  attempts = 0;
  readonly #server: SMTPServer;

  constructor() {
    this.#server = new SMTPServer({
      authOptional: true,
      disabledCommands: ["STARTTLS"],
      logger: false,
      onRcptTo: (_address, _session, callback) => {
        this.attempts++;
        if (this.behaviour === "rejects") callback(Object.assign(new Error("no such mailbox"), { responseCode: 550 }));
        else if (this.behaviour === "busy") callback(Object.assign(new Error("try later"), { responseCode: 451 }));
        else callback();
      },
      onData: (stream, session, callback) => {
        if (this.behaviour === "drops") {
          for (const connection of this.#server.connections) connection._socket?.destroy();
          return;
        }
        text(stream).then((message) => {
          this.received.push({ to: session.envelope.rcptTo.map(({ address }) => address), message });
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

for (const backend of runBackends) {
  describe(`mail over SMTP on ${backend}`, () => {
    let server: MailServer;
    let r: TestInstance;
    beforeEach(async () => {
      server = new MailServer();
      const mail_url = `smtp://127.0.0.1:${await server.listen()}`;
      r = await testInstance(backend, { flags: { mail_url, mail_from: "Keyrack <keys@example.com>" } });
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
    /** Advances the clock to the next attempt and delivers. */
    const runNextAttempt = async (): Promise<void> => {
      const { next_at } = await only();
      r.clock.set(Date.parse(String(next_at)));
      await deliverDue(r.app.services);
    };
    const sealed = async (): Promise<unknown> => (await r.sql("select sealed_message from outbox"))[0]?.sealed_message;

    it("sends a message at once, as plain text with one link, and deletes its body", async () => {
      const email = await signUp();
      expect(server.received).toHaveLength(1);
      expect(server.received[0]?.to).toEqual([email]);
      const message = server.received[0]?.message ?? "";
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

    it("reattempts after a dropped connection in 30 seconds, then a minute, with the same Message-ID", async () => {
      server.behaviour = "drops";
      const email = await signUp();
      const first = await only();
      expect(first).toMatchObject({ state: "queued", attempts: 1 });
      const wait = Date.parse(String(first.next_at)) - r.clock.now();
      expect(wait).toBeGreaterThanOrEqual(27_000);
      expect(wait).toBeLessThanOrEqual(33_000);
      await deliverDue(r.app.services); // not due yet
      expect(server.attempts).toBe(1);
      await runNextAttempt();
      expect(server.attempts).toBe(2);
      const second = Date.parse(String((await only()).next_at)) - r.clock.now();
      expect(second).toBeGreaterThanOrEqual(54_000);
      expect(second).toBeLessThanOrEqual(66_000);
      server.behaviour = "accepts";
      await runNextAttempt();
      expect(await only()).toMatchObject({ state: "sent", attempts: 3 });
      expect(server.received).toHaveLength(1);
      expect(server.received[0]?.to).toEqual([email]);
      expect(server.received[0]?.message).toContain(first.message_id);
    });

    it("gives up at once on a permanently rejected recipient; a manual retry can still deliver the message", async () => {
      server.behaviour = "rejects";
      await signUp();
      const dead = await only();
      expect(dead).toMatchObject({ state: "dead", attempts: 1 });
      expect(dead.last_error).toContain("no such mailbox");
      expect(await mailState(r.app.services)).toEqual({ queued: 0, dead: 1 });
      expect(r.logs.join("")).toContain("mail given up");
      await deliverDue(r.app.services);
      expect(server.attempts).toBe(1);
      expect(await showMail(r.app.services, dead.id, false)).not.toHaveProperty("text");
      expect((await showMail(r.app.services, dead.id, true)).text).toContain("/#/verify?token=krev_");
      server.behaviour = "accepts";
      await retryMail(r.app.services, dead.id);
      await r.app.idle();
      expect(await only()).toMatchObject({ state: "sent" });
      await expect(retryMail(r.app.services, dead.id)).rejects.toThrow("already been sent");
      await expect(retryMail(r.app.services, r.app.services.newId())).rejects.toThrow("No such message");
    });

    it("reattempts a busy server with back-off, and gives up when the link expires", async () => {
      server.behaviour = "busy";
      await account(r, freshEmail(), PASSWORD, false);
      await r.app.idle();
      const start = r.clock.now();
      const waits: number[] = [];
      for (;;) {
        const before = r.clock.now();
        await runNextAttempt();
        const { state } = await only();
        waits.push(r.clock.now() - before);
        if (state !== "queued") break;
      }
      expect(await only()).toMatchObject({ state: "dead" });
      expect(r.clock.now() - start).toBe(24 * 60 * MINUTE_MS); // when the verification link expires, to the millisecond
      expect(Math.max(...waits)).toBeLessThanOrEqual(66 * MINUTE_MS);
      expect(server.attempts).toBeGreaterThan(20);
    });

    it("gives up on a notice without a link after 72 hours", async () => {
      server.behaviour = "accepts";
      const email = await signUp();
      const { data } = await listMail(r.app.services, {});
      await r.sql("update users set email_verified_at = 1 where email_key = $1", [email]);
      server.behaviour = "busy";
      await account(r, email, PASSWORD, false);
      await r.app.idle();
      const [row] = await r.sql("select created_at, give_up_at from outbox where state = 'queued'");
      expect(data).toHaveLength(1);
      expect(Number(row?.give_up_at) - Number(row?.created_at)).toBe(72 * 60 * MINUTE_MS);
    });

    it("delivers a message once with concurrent workers", async () => {
      const { services: instance } = r.app;
      server.behaviour = "busy";
      await signUp();
      server.behaviour = "accepts";
      const { next_at } = await only();
      r.clock.set(Date.parse(String(next_at)));
      await Promise.all([deliverDue(instance), deliverDue(instance), deliverDue(instance)]);
      expect(server.received).toHaveLength(1);
    });

    it("cannot be made to send extra headers or lines by the name of a workspace", async () => {
      const workspace = await r.workspace();
      const name = "Evil\r\nBcc: everyone@example.com\r\n\r\nÜber";
      await workspace.call("sk_owner", "PATCH /v1/workspace", { name });
      const guest = freshEmail();
      await workspace.call("sk_owner", "POST /v1/invites", { email: guest, role: "member" });
      await r.app.idle();
      expect(server.received).toHaveLength(1);
      expect(server.received[0]?.to).toEqual([guest]);
      const [head = ""] = (server.received[0]?.message ?? "").split("\r\n\r\n");
      expect(head).not.toMatch(/^Bcc:/im);
      expect(head).not.toContain("Evil");
    });
  });
}
