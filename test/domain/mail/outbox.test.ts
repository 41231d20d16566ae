// The order in which the outbox sends: accounts take turns, so that a backlog of one does not delay another's mail.
import { describe, expect, it } from "vitest";
import { runBackends } from "../../../harness/databases/backends.ts";
import { testServices } from "../../../harness/instances/test-services.ts";
import { record } from "../../../src/domain/core/record.ts";
import { deliverDue, queueMail } from "../../../src/domain/mail/outbox.ts";

const BACKLOG = 12;
const ACCOUNTS = 7;
const AT_ONCE = 5;
const message = { kind: "workspace_invite", subject: "s", text: "t" } as const;

for (const backend of runBackends) {
  describe(`the outbox on ${backend}`, () => {
    it.each([
      ["an account", { account_id: "z" }],
      ["a person", {}],
    ])("sends the mail of %s after one message of each account with a backlog", async (_who, owner) => {
      await using t = await testServices(backend);
      const order: string[] = [];
      t.services.mail.transport.deliver = async ({ to }) => void order.push(to);
      await record(t.services, async (tx) => {
        for (let account = 0; account < ACCOUNTS; account++)
          for (let i = 0; i < BACKLOG; i++)
            await queueMail(t.services, tx, `${account}-${i}`, message, { account_id: `account-${account}` });
      });
      t.clock.advance(1);
      await record(t.services, (tx) => queueMail(t.services, tx, "z@example.com", message, owner));
      await deliverDue(t.services);
      const sent = order.indexOf("z@example.com");
      expect(sent >= 0 && sent < Math.ceil((ACCOUNTS + 1) / AT_ONCE) * AT_ONCE).toBe(true);
      expect(new Set(order).size).toBe(ACCOUNTS * BACKLOG + 1);
    });
  });
}
