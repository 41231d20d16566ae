// Creates projects with the victim's own test key until that is refused; live must still be able to create one.
import { flood, type Attack } from "./attack.ts";

const PROJECTS_MAX = 250;

export const testProjects: Attack = {
  name: "projects of a test key",
  async run(stage) {
    const { victim, victimTestKey, fresh, broken } = stage;
    let made = 0;
    const create = (key: string) => victim.call(key, "POST /v1/projects", { name: "P", slug: fresh() });
    await flood(stage, { count: PROJECTS_MAX + 50, width: 4 }, async () => {
      if ((await create(victimTestKey)).status === 201) made++;
    });
    if (made > PROJECTS_MAX) broken(`a test key made ${made} projects`);
    const { status } = await create(victim.key);
    if (status !== 201) broken(`live was refused a project: ${status}`);
  },
};
