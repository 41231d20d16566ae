// Invites and revokes in a loop: mail to strangers is limited, and no other mail is held up.
import { flood, type Attack } from "./attack.ts";

export const inviteFlood: Attack = {
  name: "invitations in a loop",
  async run(stage) {
    const { call, key } = stage.attacker;
    const email = `${stage.fresh()}@example.com`;
    await flood(stage, { count: 40, width: 2 }, async () => {
      const { status, body } = await call(key, "POST /v1/invites", { email, role: "member" });
      if (status === 201) await call(key, `POST /v1/invites/${body.id}/revoke`, {});
    });
  },
};
