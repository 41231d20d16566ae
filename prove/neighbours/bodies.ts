// Sends bodies that are costly to parse.
import { hostileBodies } from "../../harness/hostile-bodies.ts";
import { flood, type Attack } from "./attack.ts";

export const largeBodies: Attack = {
  name: "hostile bodies",
  async run(stage) {
    const { call, key } = stage.attacker;
    const bodies = hostileBodies(stage.attacker);
    await flood(stage, { count: bodies.length * 2, width: 2 }, (i) => {
      const { path, body: raw } = bodies[i % bodies.length] as (typeof bodies)[number];
      return call(key, `POST ${path}`, undefined, { raw });
    });
  },
};
