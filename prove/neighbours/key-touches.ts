// Uses many new secret keys once each, all at the same time: each use is a write, which must not fill the queue of the
// service.
import { flood, type Attack } from "./attack.ts";

const KEYS = 600;

export const keyTouches: Attack = {
  name: "first uses of secret keys",
  async run(stage) {
    const { call, key, project_id } = stage.attacker;
    const made: { id: string; key: string }[] = [];
    await flood(stage, { count: KEYS, width: 16 }, async (i) => {
      const { status, body } = await call(key, "POST /v1/secret_keys", { env: i % 2 === 0 ? "live" : "test" });
      if (status === 201) made.push({ id: String(body.id), key: String(body.key) });
    });
    await Promise.all(made.map((one) => call(one.key, `GET /v1/projects/${project_id}`).catch(() => {})));
    // Not a flood: also after the round has ended, so that the keys end.
    for (const { id } of made) await call(key, `POST /v1/secret_keys/${id}/revoke`, {}).catch(() => {});
  },
};
