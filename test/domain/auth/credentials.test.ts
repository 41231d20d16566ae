// From a bearer's text to its actor, without HTTP: each kind at its edges, and the last use that is written beside it.
import { randomBytes } from "node:crypto";
import { beforeAll, describe, expect, it } from "vitest";
import type { Services } from "../../../src/domain/core/context.ts";
import { otherCredentialKind, resolveBearer } from "../../../src/domain/auth/credentials.ts";
import { record } from "../../../src/domain/core/record.ts";
import { logIn } from "../../../src/domain/auth/sessions.ts";
import { signUp } from "../../../src/domain/auth/users.ts";
import { createWorkspace } from "../../../src/domain/workspaces/workspaces.ts";
import { formatCredential, type CredentialKind } from "../../../src/kernel/credentials.ts";
import { backends } from "../../../harness/databases/backends.ts";
import { sharedServices } from "../../../harness/instances/test-services.ts";
import { sha256Hex } from "../../../src/platform/crypto.ts";

/** A refusal is thrown at once or comes later; for a test it is one thing. */
const resolve = async (services: Services, bearer: string) => resolveBearer(services, bearer);

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const mint = (kind: CredentialKind, env: "live" | "test" | null): string =>
  formatCredential(kind, env, randomBytes(24));

for (const back of backends) {
  describe(`a bearer on ${back}`, () => {
    const lite = sharedServices(back);
    const refused = (bearer: string): Promise<unknown> =>
      resolve(lite().services, bearer).then(
        () => "accepted",
        (error: { failure: string }) => error.failure,
      );
    /** Behind every write that is under way. */
    const written = (): Promise<unknown> => record(lite().services, async () => null);
    let secret: { id: string; key: string };
    let workspace_id: string;
    beforeAll(async () => {
      const { services } = lite();
      const made = await createWorkspace(
        { services, actor: { kind: "bootstrap" } },
        { name: "A", slug: "a", env: "live" },
      );
      secret = made.secret_key;
      workspace_id = made.workspace.id;
    });
    const column = async (table: string, name: string, id: string): Promise<unknown> =>
      (await lite().sql(`select ${name} from ${table} where id = $1`, [id]))[0]?.[name] ?? null;

    it("is a secret key with all that its row says", async () => {
      expect(await resolve(lite().services, secret.key)).toEqual({
        kind: "secret_key",
        id: secret.id,
        workspace_id,
        env: "live",
        owner_scope: true,
        expires_at: null,
      });
    });

    it("is refused by its kind, without a lookup where the checksum is wrong", async () => {
      const turned = secret.key.slice(0, -1) + (secret.key.endsWith("0") ? "1" : "0");
      for (const [bearer, failure] of [
        [mint("secret_key", "live"), "invalid_key"],
        [turned, "invalid_key"],
        [mint("api_key", "live"), "invalid_key"],
        [mint("session", null), "invalid_session"],
        [mint("bootstrap", null), "unauthenticated"],
        ["nonsense", "unauthenticated"],
        ["", "unauthenticated"],
      ] as const) {
        expect(await refused(bearer), bearer.slice(0, 10)).toBe(failure);
      }
    });

    it("is the bootstrap token only where one is configured, and only that one", async () => {
      const { services } = lite();
      const token = mint("bootstrap", null);
      for (const own of [token, "any text will do"]) {
        const with_ = { ...services, bootstrapHash: () => sha256Hex(own) };
        expect(await resolve(with_, own)).toEqual({ kind: "bootstrap" });
        await expect(resolve(with_, `${own}x`)).rejects.toMatchObject({ failure: "unauthenticated" });
      }
      // Text that reads as another credential is looked up as one, whatever is configured.
      const odd = { ...services, bootstrapHash: () => sha256Hex(secret.key) };
      expect((await resolve(odd, secret.key)).kind).toBe("secret_key");
      expect([otherCredentialKind(token), otherCredentialKind("any text"), otherCredentialKind(secret.key)]).toEqual([
        null,
        null,
        "secret_key",
      ]);
    });

    it("is a secret key until it expires, and not at that moment", async () => {
      const { services, clock } = lite();
      const actor = { kind: "bootstrap" } as const;
      const { secret_key } = await createWorkspace({ services, actor }, { name: "B", slug: "b", env: "test" });
      const ends = clock.now() + HOUR;
      await lite().sql("update secret_keys set expires_at = $1 where id = $2", [ends, secret_key.id]);
      clock.set(ends - 1);
      expect(await resolve(services, secret_key.key)).toMatchObject({ env: "test", expires_at: ends });
      clock.set(ends);
      expect(await refused(secret_key.key)).toBe("invalid_key");
      await lite().sql("update secret_keys set expires_at = null, revoked_at = $1 where id = $2", [
        ends,
        secret_key.id,
      ]);
      expect(await refused(secret_key.key)).toBe("invalid_key");
    });

    it("has its last use written once a minute, and again at once when that write failed", async () => {
      const { services, clock } = lite();
      const used = async (): Promise<unknown> => {
        await resolve(services, secret.key);
        await written();
        return column("secret_keys", "last_used_at", secret.id);
      };
      clock.advance(HOUR);
      const first = clock.now();
      expect(Number(await used())).toBe(first);
      clock.advance(MINUTE - 1);
      expect(Number(await used())).toBe(first);
      services.touched.clear(); // another process remembers nothing, and reads the row
      expect(Number(await used())).toBe(first);
      clock.advance(1);
      expect(Number(await used())).toBe(first + MINUTE);
      clock.advance(MINUTE);
      const broken = {
        ...services,
        store: { ...services.store, read: services.store.read, write: () => Promise.reject(new Error()) },
      };
      await resolve(broken, secret.key);
      await written();
      expect(services.touched.has(secret.id)).toBe(false);
      expect(Number(await used())).toBe(first + 2 * MINUTE);
    });

    it("is remembered as used only so often: a full memory is emptied and costs a write more", async () => {
      const { services, clock } = lite();
      services.touched.delete(secret.id);
      for (let i = services.touched.size; i < 100_000; i++) services.touched.set(`other ${i}`, 0);
      clock.advance(MINUTE);
      await resolve(services, secret.key);
      expect([...services.touched]).toEqual([[secret.id, clock.now()]]);
    });

    it("is a session, pushed on by use, that ends idle and ends for good", async () => {
      const { services, clock } = lite();
      const nobody = {
        services,
        actor: { kind: "anonymous" },
        from: { network: "10.0.0.0/24", request_id: "r" },
      } as const;
      const who = { email: "ann@example.com", password: "a long enough password" };
      await signUp(nobody, who);
      const { id, token } = await logIn(nobody, who);
      const born = clock.now();
      const expiry = async (): Promise<number> => {
        expect(await resolve(services, token)).toMatchObject({ kind: "session", id, workspace_id: null, role: null });
        await written();
        return Number(await column("sessions", "expires_at", id));
      };
      clock.advance(MINUTE - 1);
      expect(await expiry()).toBe(born + 12 * HOUR);
      clock.advance(1);
      expect(await expiry()).toBe(born + MINUTE + 12 * HOUR);
      clock.set(born + MINUTE + 12 * HOUR - 1);
      await expiry();
      clock.advance(12 * HOUR);
      expect(await refused(token)).toBe("invalid_session");
      const end = born + 30 * 24 * HOUR;
      await lite().sql("update sessions set expires_at = $1 where id = $2", [end + HOUR, id]);
      clock.set(end - 1);
      expect(await expiry()).toBe(end);
      clock.set(end);
      expect(await refused(token)).toBe("invalid_session");
    });
  });
}
