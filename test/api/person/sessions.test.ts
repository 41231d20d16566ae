// Sessions: logging in and out, expiry, the list, and the active workspace.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import {
  account,
  auditRows,
  deploymentActions,
  freshEmail,
  receivedMail,
  logIn,
  memberOf,
  PASSWORD,
  person,
  team,
} from "../../../harness/instances/people.ts";
import { expectRefusal, headerNames, sharedInstance } from "../../../harness/instances/test-instance.ts";
import { DAY_MS, HOUR_MS } from "../../../src/kernel/durations.ts";
import { mistyped } from "../../../harness/mistyped.ts";

for (const backend of runBackends) {
  describe(`sessions on ${backend}`, () => {
    const instance = sharedInstance(backend);
    const chainLength = async (): Promise<number> => (await auditRows(instance)).length;

    it("keeps the newest 100 ended ones of a person who logs in, and all open ones", async () => {
      const [one, other] = [await person(instance), await person(instance)];
      const now = instance.clock.now();
      const columns =
        "id, user_id, lookup_hash, display_prefix, created_at, last_seen_at, expires_at, absolute_expires_at, revoked_at";
      const insert = (user: string, name: string, count: number, revoked_at: number | "null"): Promise<unknown> => {
        const rows = Array.from({ length: count }, (_, i) => {
          const times = [now - 1_000 + i, now, now + DAY_MS, now + DAY_MS, revoked_at].join(", ");
          return `('${name}-${i}', '${user}', '${name}-${i}', 'x', ${times})`;
        });
        return instance.sql(`insert into sessions (${columns}) values ${rows.join(", ")}`);
      };
      await insert(one.id, "open", 3, "null");
      await insert(one.id, "ended", 105, now);
      await insert(other.id, "other", 105, now);
      await logIn(instance, one.email);
      expect(await instance.sql("select id from sessions where id like 'other-%'")).toHaveLength(105);
      const left = (await instance.sql(`select id from sessions where user_id = '${one.id}'`)).map(({ id }) =>
        String(id),
      );
      expect(left.filter((id) => id.startsWith("open-"))).toHaveLength(3);
      expect(left.filter((id) => id.startsWith("ended-"))).toHaveLength(100);
      expect([left.includes("ended-4"), left.includes("ended-5")]).toEqual([false, true]);
    });

    it("returns the session with its token, the person and their workspaces", async () => {
      const t = await team(instance);
      const since = await chainLength();
      const now = instance.clock.now();
      const { status, body } = await instance.call(null, "POST /v1/auth/sessions", {
        email: t.owner.email,
        password: PASSWORD,
      });
      expect(status).toBe(201);
      expect(Object.keys(body).toSorted()).toEqual(
        [
          "object",
          "token",
          "id",
          "display_prefix",
          "active_workspace_id",
          "created_at",
          "last_seen_at",
          "expires_at",
          "absolute_expires_at",
          "user",
          "memberships",
        ].toSorted(),
      );
      expect(body.token).toMatch(/^krses_[A-Za-z0-9_-]{32}[0-9a-f]{8}$/);
      expect(body.display_prefix).toBe(body.token.slice(0, 12));
      expect(body.active_workspace_id).toBe(t.id);
      expect(Date.parse(body.expires_at)).toBe(now + 12 * HOUR_MS);
      expect(Date.parse(body.absolute_expires_at)).toBe(now + 30 * DAY_MS);
      expect(body.user).toEqual({
        id: t.owner.id,
        email: t.owner.email,
        email_verified: true,
        name: null,
        created_at: expect.any(String),
        last_login_at: new Date(now).toISOString(),
      });
      expect(body.memberships).toEqual([{ workspace_id: t.id, role: "owner", name: "Team", slug: t.slug }]);
      const rows = (await auditRows(instance)).slice(since);
      expect(rows).toMatchObject([
        {
          action: "session.created",
          actor_type: "user",
          actor_id: t.owner.id,
          target_id: body.id,
          payload: { display_prefix: body.display_prefix },
        },
      ]);
    });

    it("responds the same to a wrong password and an unknown address, without audit row or mail", async () => {
      const email = await account(instance);
      const [since, mailed] = [await chainLength(), (await receivedMail(instance)).length];
      const known = await instance.call(null, "POST /v1/auth/sessions", { email, password: "wrong" });
      const unknown = await instance.call(null, "POST /v1/auth/sessions", { email: freshEmail(), password: "wrong" });
      for (const reply of [known, unknown]) expectRefusal(reply, 401, "invalid_credentials");
      expect(known.text).toBe(unknown.text);
      expect(known.body.error.message).toBe("Email or password is incorrect.");
      expect(headerNames(known)).toEqual(headerNames(unknown));
      expect(await deploymentActions(instance, since)).toEqual([]);
      expect(await receivedMail(instance)).toHaveLength(mailed);
    });

    it("ignores the case of an address and the Unicode form of a password", async () => {
      const email = freshEmail("MiXed");
      await account(instance, email, "cafe\u0301 au lait, please");
      const same = await logIn(instance, email.toLowerCase(), "caf\u00e9 au lait, please");
      expect((await instance.call(same.session, "GET /v1/auth/me")).body.user.email).toBe(email);
    });

    it("lets an unverified person log in and create a workspace", async () => {
      const p = await person(instance, { verified: false });
      const slug = `unverified-${process.pid}-${backend}`;
      const made = await instance.call(p.session, "POST /v1/workspaces", { name: "New", slug });
      expect(made.status).toBe(201);
      expect(made.body.membership).toEqual({ user_id: p.id, role: "owner" });
    });

    it("responds 403 for a foreign workspace with the right password and 401 with a wrong one", async () => {
      const t = await team(instance);
      const email = await account(instance);
      const since = await chainLength();
      const want = { email, password: PASSWORD, workspace_id: t.id };
      expectRefusal(await instance.call(null, "POST /v1/auth/sessions", want), 403, "forbidden");
      const wrong = { ...want, password: "wrong" };
      expectRefusal(await instance.call(null, "POST /v1/auth/sessions", wrong), 401, "invalid_credentials");
      expect(await deploymentActions(instance, since)).toEqual([]);
    });

    it("starts in the requested workspace, else the last, else the only one, else none", async () => {
      const p = await person(instance);
      const active = async (more: object = {}): Promise<string | null> =>
        (await instance.call(null, "POST /v1/auth/sessions", { email: p.email, password: PASSWORD, ...more })).body
          .active_workspace_id;
      expect(await active()).toBeNull();
      const [a, b] = [await team(instance), await team(instance)];
      for (const t of [a, b]) {
        const { body } = await instance.call(t.owner.session, "POST /v1/invites", { email: p.email, role: "member" });
        await instance.call(p.session, "POST /v1/auth/invites/accept", { token: body.token });
      }
      expect(await active()).toBe(a.id); // accepting the first moved the session there, the second did not
      expect(await active({ workspace_id: b.id })).toBe(b.id);
      expect(await active()).toBe(b.id);
      await instance.call(b.owner.session, `DELETE /v1/members/${p.id}`);
      expect(await active()).toBe(a.id);
    });

    it("extends the expiry with each request, written at most once a minute, up to thirty days", async () => {
      const p = await person(instance);
      const stored = async (): Promise<number> =>
        Number((await instance.sql("select expires_at from sessions where id = $1", [p.session_id]))[0]?.expires_at);
      const touched = async (): Promise<number> => {
        expect((await instance.call(p.session, "GET /v1/auth/me")).status).toBe(200);
        await instance.app.services.store.write({ chains: [], work: async () => ({ value: null, entries: [] }) }); // behind the touch
        return stored();
      };
      const start = await stored();
      instance.clock.advance(59_000);
      expect(await touched()).toBe(start);
      instance.clock.advance(2_000);
      expect(await touched()).toBe(start + 61_000);
      const born = instance.clock.now() - 61_000;
      for (let hours = 11; hours < 30 * 24; hours += 11) {
        instance.clock.advance(11 * HOUR_MS);
        await touched();
      }
      expect(await stored()).toBe(born + 30 * DAY_MS);
      instance.clock.set(born + 30 * DAY_MS - 1);
      expect((await instance.call(p.session, "GET /v1/auth/me")).status).toBe(200);
      instance.clock.set(born + 30 * DAY_MS);
      expectRefusal(await instance.call(p.session, "GET /v1/auth/me"), 401, "invalid_session");
    });

    it("ends an idle session after twelve hours", async () => {
      const p = await person(instance);
      instance.clock.advance(12 * HOUR_MS - 1);
      expect((await instance.call(p.session, "GET /v1/auth/sessions")).status).toBe(200);
      const idle = await person(instance);
      instance.clock.advance(12 * HOUR_MS);
      expectRefusal(await instance.call(idle.session, "GET /v1/auth/me"), 401, "invalid_session");
    });

    it("lists live sessions, newest first, and marks the current one", async () => {
      const p = await person(instance);
      instance.clock.advance(1);
      const second = await logIn(instance, p.email);
      instance.clock.advance(1);
      const third = await logIn(instance, p.email);
      await instance.call(second.session, "DELETE /v1/auth/sessions/current");
      const { body } = await instance.call(p.session, "GET /v1/auth/sessions");
      expect(body.object).toBe("list");
      expect(body.data.map(({ id, current }: { id: string; current: boolean }) => [id, current])).toEqual([
        [third.session_id, false],
        [p.session_id, true],
      ]);
      expect(Object.keys(body.data[0]).toSorted()).toEqual(
        [
          "id",
          "display_prefix",
          "active_workspace_id",
          "created_at",
          "last_seen_at",
          "expires_at",
          "absolute_expires_at",
          "current",
        ].toSorted(),
      );
    });

    it("ends a session once, and only for its own person", async () => {
      const [p, stranger] = [await person(instance), await person(instance)];
      const other = await logIn(instance, p.email);
      const since = await chainLength();
      const route = `DELETE /v1/auth/sessions/${other.session_id}`;
      expectRefusal(await instance.call(stranger.session, route), 404, "not_found");
      const ended = await instance.call(p.session, route);
      expect(ended.body).toEqual({ object: "session", id: other.session_id, revoked: true });
      expectRefusal(await instance.call(p.session, route), 404, "not_found");
      expectRefusal(await instance.call(other.session, "GET /v1/auth/me"), 401, "invalid_session");
      const current = await instance.call(p.session, "DELETE /v1/auth/sessions/current");
      expect(current.body).toEqual({ object: "session", id: p.session_id, revoked: true });
      expectRefusal(await instance.call(p.session, "GET /v1/auth/me"), 401, "invalid_session");
      expect(await deploymentActions(instance, since)).toEqual(["session.revoked", "session.revoked"]);
    });

    it("ends the oldest session when a fifty-first starts", async () => {
      const p = await person(instance);
      for (let n = 2; n <= 51; n++) {
        instance.clock.advance(1);
        await logIn(instance, p.email);
      }
      expectRefusal(await instance.call(p.session, "GET /v1/auth/me"), 401, "invalid_session");
      const last = await logIn(instance, p.email);
      const { body } = await instance.call(last.session, "GET /v1/auth/sessions");
      expect(body.data).toHaveLength(50);
    });

    it("switches workspaces, and hides those the person is not in", async () => {
      const [a, b] = [await team(instance), await team(instance)];
      const p = await memberOf(instance, a, "admin");
      const switched = "POST /v1/auth/sessions/current/workspace";
      expectRefusal(await instance.call(p.session, switched, { workspace_id: b.id }), 404, "not_found");
      const { body: invite } = await instance.call(b.owner.session, "POST /v1/invites", {
        email: p.email,
        role: "member",
      });
      const { body: joined } = await instance.call(p.session, "POST /v1/auth/invites/accept", { token: invite.token });
      expect(joined.active).toBe(false);
      const since = await chainLength();
      const reply = await instance.call(p.session, switched, { workspace_id: b.id });
      expect(reply.body).toEqual({ object: "session", id: p.session_id, active_workspace_id: b.id });
      expect((await instance.call(p.session, "GET /v1/workspace")).body.id).toBe(b.id);
      expectRefusal(await instance.call(p.session, "POST /v1/projects", { name: "P", slug: "ppp" }), 403, "forbidden");
      expect(await deploymentActions(instance, since)).toEqual([]);
    });

    it("refuses a person without a workspace on the vendor plane, with the reason", async () => {
      const p = await person(instance);
      const reply = await instance.call(p.session, "GET /v1/workspace");
      expectRefusal(reply, 403, "forbidden");
      expect(reply.body.error.message).toBe("No active workspace.");
    });

    it("rejects a session token with a wrong checksum, cut short, or with another prefix", async () => {
      const { session } = await person(instance);
      for (const token of [mistyped(session), session.slice(0, -1), `${session}0`]) {
        expectRefusal(await instance.call(token, "GET /v1/auth/me"), 401, "invalid_session");
      }
      expectRefusal(
        await instance.call(session.replace("krses_", "krsk_live_"), "GET /v1/workspace"),
        401,
        "invalid_key",
      );
    });
  });
}
