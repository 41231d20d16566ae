// What a caller causes to be written waits in the caller's own queue, also when no credential was checked.
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices } from "../../../harness/instances/test-services.ts";
import { resolveBearer } from "../../../src/domain/auth/credentials.ts";
import { requestVerification } from "../../../src/domain/auth/email-verifications.ts";
import { requestReset } from "../../../src/domain/auth/password-resets.ts";
import { logIn } from "../../../src/domain/auth/sessions.ts";
import { signUp } from "../../../src/domain/auth/users.ts";
import type { SessionActor } from "../../../src/domain/core/actor.ts";
import { MINUTE_MS } from "../../../src/kernel/durations.ts";

const NETWORK = "192.0.2.0/24";

for (const backend of runBackends) {
  describe(`writes without a workspace on ${backend}`, () => {
    it("are charged to the network, and to the person once there is one", async () => {
      await using fixture = await testServices(backend);
      const { services, clock } = fixture;
      const write = vi.spyOn(services.store, "write");
      onTestFinished(() => write.mockRestore());
      const from = { network: NETWORK, request_id: "r" };
      const anonymous = { services, actor: { kind: "anonymous" }, from } as const;
      const person = { email: "ada@example.com", password: "a long enough password" };
      /** The owners of what an operation writes, each once. */
      const owners = async (operation: () => Promise<unknown>): Promise<string[]> => {
        write.mockClear();
        await operation().catch(() => {});
        const ids = write.mock.calls.map(([{ owner }]) => (owner ? `${owner.kind} ${owner.id}` : "service"));
        return [...new Set(ids)];
      };
      const network = `network ${NETWORK}`;
      expect((await owners(() => signUp(anonymous, person)))[0]).toBe(network);
      expect(await owners(() => signUp(anonymous, person))).toEqual([network]);
      expect(await owners(() => requestReset(anonymous, person.email))).toEqual([network]);
      expect(await owners(() => logIn(anonymous, { ...person, password: "a wrong one" }))).toEqual([network]);
      const { token } = await logIn(anonymous, person);
      const actor = (await resolveBearer(services, token)) as SessionActor;
      const self = `person ${actor.user_id}`;
      clock.advance(MINUTE_MS);
      expect(await owners(async () => resolveBearer(services, token))).toEqual([self]);
      expect(await owners(() => requestVerification({ services, actor }))).toEqual([self]);
    });
  });
}
