// Resolving a bearer to its actor, without HTTP: each kind at its limits, and the recording of its last use.
import { randomBytes } from "node:crypto";
import { beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { requireUsableToken } from "../../../src/config/consistency.ts";
import type { Services } from "../../../src/domain/core/context.ts";
import { resolveBearer } from "../../../src/domain/auth/credentials.ts";
import { record } from "../../../src/domain/core/record.ts";
import { logIn } from "../../../src/domain/auth/sessions.ts";
import { signUp } from "../../../src/domain/auth/users.ts";
import { cellOwner } from "../../../src/fairness/owners.ts";
import { createWorkspace } from "../../../src/domain/workspaces/workspaces.ts";
import { formatCredential, type CredentialKind } from "../../../src/kernel/credentials.ts";
import { runBackends } from "../../../harness/databases/backends.ts";
import { sharedServices } from "../../../harness/instances/test-services.ts";
import { sha256Hex } from "../../../src/platform/crypto.ts";
import { HOUR_MS, MINUTE_MS } from "../../../src/kernel/durations.ts";
import { mistyped } from "../../../harness/mistyped.ts";

/** Turns a synchronous throw into a rejection. */
const resolve = async (services: Services, bearer: string) => resolveBearer(services, bearer);

const mint = (kind: CredentialKind, env: "live" | "test" | null): string =>
  formatCredential(kind, env, randomBytes(24));

for (const backend of runBackends) {
  describe(`a bearer on ${backend}`, () => {
    const fixture = sharedServices(backend);
    const failureOf = (bearer: string): Promise<unknown> =>
      resolve(fixture().services, bearer).then(
        () => "accepted",
        (error: { failure: string }) => error.failure,
      );
    /** Resolves after all writes in progress. */
    const written = (): Promise<unknown> => record(fixture().services, async () => null);
    let secret: { id: string; key: string };
    let workspace_id: string;
    beforeAll(async () => {
      const { services } = fixture();
      const made = await createWorkspace(
        { services, actor: { kind: "bootstrap" } },
        { name: "A", slug: "a", env: "live" },
      );
      secret = made.secret_key;
      workspace_id = made.workspace.id;
    });
    const column = async (table: string, name: string, id: string): Promise<unknown> =>
      (await fixture().sql(`select ${name} from ${table} where id = $1`, [id]))[0]?.[name] ?? null;

    it("resolves to a secret key with the fields of its row", async () => {
      expect(await resolve(fixture().services, secret.key)).toEqual({
        kind: "secret_key",
        id: secret.id,
        workspace_id,
        account_id: null,
        env: "live",
        owner_scope: true,
        expires_at: null,
        restriction: null,
      });
    });

    it("is rejected according to its kind", async () => {
      const badChecksum = mistyped(secret.key);
      for (const [bearer, failure] of [
        [mint("secret_key", "live"), "invalid_key"],
        [badChecksum, "invalid_key"],
        [mint("api_key", "live"), "invalid_key"],
        [mint("session", null), "invalid_session"],
        [mint("bootstrap", null), "unusable_credential"],
        ["nonsense", "unusable_credential"],
        ["", "unusable_credential"],
      ] as const) {
        expect(await failureOf(bearer), bearer.slice(0, 10)).toBe(failure);
      }
    });

    it("resolves to bootstrap only if it is the configured bootstrap token", async () => {
      const { services } = fixture();
      const token = mint("bootstrap", null);
      for (const own of [token, "any text will do"]) {
        const configured = { ...services, bootstrapHash: () => sha256Hex(own) };
        expect(await resolve(configured, own)).toEqual({ kind: "bootstrap" });
        await expect(resolve(configured, `${own}x`)).rejects.toMatchObject({ failure: "unusable_credential" });
      }
      // Text with the form of another credential is resolved as that credential, even if configured as the bootstrap
      // token.
      const odd = { ...services, bootstrapHash: () => sha256Hex(secret.key) };
      expect((await resolve(odd, secret.key)).kind).toBe("secret_key");
      for (const usable of [token, "any text of enough characters"])
        expect(() => requireUsableToken(usable)).not.toThrow();
      expect(() => requireUsableToken(secret.key)).toThrow("(secret_key)");
    });

    it("is valid until the moment it expires", async () => {
      const { services, clock } = fixture();
      const actor = { kind: "bootstrap" } as const;
      const { secret_key } = await createWorkspace({ services, actor }, { name: "B", slug: "b", env: "test" });
      const ends = clock.now() + HOUR_MS;
      await fixture().sql("update secret_keys set expires_at = $1 where id = $2", [ends, secret_key.id]);
      clock.set(ends - 1);
      expect(await resolve(services, secret_key.key)).toMatchObject({ env: "test", expires_at: ends });
      clock.set(ends);
      expect(await failureOf(secret_key.key)).toBe("invalid_key");
      await fixture().sql("update secret_keys set expires_at = null, revoked_at = $1 where id = $2", [
        ends,
        secret_key.id,
      ]);
      expect(await failureOf(secret_key.key)).toBe("invalid_key");
    });

    it("has its last use written once a minute, and again at once when that write failed", async () => {
      const { services, clock } = fixture();
      const used = async (): Promise<unknown> => {
        await resolve(services, secret.key);
        await written();
        return column("secret_keys", "last_used_at", secret.id);
      };
      clock.advance(HOUR_MS);
      const first = clock.now();
      expect(Number(await used())).toBe(first);
      clock.advance(MINUTE_MS - 1);
      expect(Number(await used())).toBe(first);
      services.touched.clear(); // like another process, which has to read the row
      expect(Number(await used())).toBe(first);
      clock.advance(1);
      expect(Number(await used())).toBe(first + MINUTE_MS);
      clock.advance(MINUTE_MS);
      const broken = {
        ...services,
        store: { ...services.store, read: services.store.read, write: () => Promise.reject(new Error()) },
      };
      await resolve(broken, secret.key);
      await written();
      expect(services.touched.get(secret.id)).toBeUndefined();
      expect(Number(await used())).toBe(first + 2 * MINUTE_MS);
    });

    it("has its last use written and remembered at the expense of its cell", async () => {
      const { services, clock } = fixture();
      const cell = cellOwner(workspace_id, "live");
      const write = vi.spyOn(services.store, "write");
      onTestFinished(() => write.mockRestore());
      services.touched.clear();
      clock.advance(MINUTE_MS);
      await resolve(services, secret.key);
      expect(write.mock.calls.map(([{ owner }]) => owner)).toEqual([cell]);
      expect(services.shares.of("touches").usedBy(cell)).toBe(1);
      await written();
    });

    it("resolves to a session that use extends, up to its idle and its absolute end", async () => {
      const { services, clock } = fixture();
      const anonymous = {
        services,
        actor: { kind: "anonymous" },
        from: { network: "10.0.0.0/24", request_id: "r" },
      } as const;
      const credentials = { email: "ann@example.com", password: "a long enough password" };
      await signUp(anonymous, credentials);
      const { id, token } = await logIn(anonymous, credentials);
      const createdAt = clock.now();
      const expiry = async (): Promise<number> => {
        expect(await resolve(services, token)).toMatchObject({ kind: "session", id, workspace_id: null, role: null });
        await written();
        return Number(await column("sessions", "expires_at", id));
      };
      clock.advance(MINUTE_MS - 1);
      expect(await expiry()).toBe(createdAt + 12 * HOUR_MS);
      clock.advance(1);
      expect(await expiry()).toBe(createdAt + MINUTE_MS + 12 * HOUR_MS);
      clock.set(createdAt + MINUTE_MS + 12 * HOUR_MS - 1);
      await expiry();
      clock.advance(12 * HOUR_MS);
      expect(await failureOf(token)).toBe("invalid_session");
      const end = createdAt + 30 * 24 * HOUR_MS;
      await fixture().sql("update sessions set expires_at = $1 where id = $2", [end + HOUR_MS, id]);
      clock.set(end - 1);
      expect(await expiry()).toBe(end);
      clock.set(end);
      expect(await failureOf(token)).toBe("invalid_session");
    });
  });
}
