// Sensitive actions of people are logged with actor, network and request id, and send no mail: an attacker could use
// such mail to flood an inbox.
import { beforeAll, describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { receivedMail, logIn, memberOf, person, team, type Team } from "../../../harness/instances/people.ts";
import { expectRefusal, sharedInstance, type Reply } from "../../../harness/instances/test-instance.ts";

const NOTICES = ["owner role offered", "owner role granted", "secret key minted by a person", "session ended"];

for (const backend of runBackends) {
  describe(`notices on ${backend}`, () => {
    const instance = sharedInstance(backend);
    let t: Team;
    beforeAll(async () => {
      t = await team(instance);
    });

    /** The notices that `work` logs, and how many messages it sends. */
    async function noticesOf(work: () => Promise<Reply>) {
      const [from, mailed] = [instance.logs.length, (await receivedMail(instance)).length];
      const reply = await work();
      const messages = (await receivedMail(instance)).length - mailed;
      const lines = instance.logs.slice(from).map((line) => JSON.parse(line) as Record<string, unknown>);
      return { reply, messages, notices: lines.filter(({ event }) => NOTICES.includes(String(event))) };
    }
    const whence = ({ headers }: Reply) => ({ network: "127.0.0.0/24", request_id: headers.get("request-id") });

    it("logs a promotion to owner once, and mails no one", async () => {
      const p = await memberOf(instance, t, "member");
      const grant = () => instance.call(t.owner.session, `PATCH /v1/members/${p.id}`, { role: "owner" });
      const { reply, notices, messages } = await noticesOf(grant);
      const line = { event: "owner role granted", workspace_id: t.id, user_id: p.id, ...whence(reply) };
      expect(notices).toMatchObject([line]);
      expect(messages).toBe(0);
      expect(await noticesOf(grant)).toMatchObject({ reply: { status: 200 }, notices: [], messages: 0 });
    });

    it("logs an owner invitation when sent and when accepted; only the invitation is mailed", async () => {
      const p = await person(instance);
      const want = { email: p.email, role: "owner" };
      const sent = await noticesOf(() => instance.call(t.owner.session, "POST /v1/invites", want));
      expect(sent.notices).toMatchObject([{ event: "owner role offered", ...whence(sent.reply) }]);
      expect(sent.messages).toBe(1);
      const { token } = sent.reply.body;
      const accepted = await noticesOf(() => instance.call(p.session, "POST /v1/auth/invites/accept", { token }));
      const line = { event: "owner role granted", workspace_id: t.id, user_id: p.id, ...whence(accepted.reply) };
      expect(accepted.notices).toMatchObject([line]);
      expect(accepted.messages).toBe(0);
      const secret = token.split(".")[1];
      expect(JSON.stringify([sent.notices, accepted.notices])).not.toContain(secret);
    });

    it("logs a secret key that a person mints by its prefix, and mails no one", async () => {
      const { reply, notices, messages } = await noticesOf(() =>
        instance.call(t.owner.session, "POST /v1/secret_keys", { env: "live" }),
      );
      const { id: secret_key_id, display_prefix, key } = reply.body;
      const line = { workspace_id: t.id, user_id: t.owner.id, secret_key_id, display_prefix, ...whence(reply) };
      expect(notices).toMatchObject([{ event: "secret key minted by a person", ...line }]);
      expect(messages).toBe(0);
      expect(JSON.stringify(notices)).not.toContain(key.slice(display_prefix.length));
    });

    it("logs an ended session by its prefix, and mails no one", async () => {
      const other = await logIn(instance, t.owner.email);
      const { reply, notices, messages } = await noticesOf(() =>
        instance.call(t.owner.session, `DELETE /v1/auth/sessions/${other.session_id}`),
      );
      const session = other.session.slice(0, "krses_".length + 6);
      expect(notices).toMatchObject([{ event: "session ended", user_id: t.owner.id, session, ...whence(reply) }]);
      expect(messages).toBe(0);
      expect(JSON.stringify(notices)).not.toContain(other.session.slice(session.length));
    });

    it("logs no notice for refusals, lesser roles, and keys minted by a program", async () => {
      const p = await memberOf(instance, t, "member");
      for (const work of [
        () => instance.call(p.session, `PATCH /v1/members/${p.id}`, { role: "owner" }),
        () => instance.call(p.session, "POST /v1/secret_keys", { env: "live" }),
      ]) {
        const { reply, ...left } = await noticesOf(work);
        expectRefusal(reply, 403, "forbidden");
        expect(left).toEqual({ notices: [], messages: 0 });
      }
      const unknown = await noticesOf(() => instance.call(p.session, `DELETE /v1/auth/sessions/${t.owner.session_id}`));
      expectRefusal(unknown.reply, 404, "not_found");
      const lesser = await noticesOf(() =>
        instance.call(t.owner.session, `PATCH /v1/members/${p.id}`, { role: "admin" }),
      );
      const program = await noticesOf(() => instance.call(t.key, "POST /v1/secret_keys", { env: "live" }));
      expect([lesser.reply.status, program.reply.status]).toEqual([200, 201]);
      for (const { notices, messages } of [unknown, lesser, program]) expect([notices, messages]).toEqual([[], 0]);
    });
  });
}
