// install.sh --rollback: back to the binary before, unless that cannot open the present data.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { machine as emptyMachine } from "../../harness/release/machine.ts";
import { smallBinary, writeSmallRelease } from "../../harness/release/small-release.ts";
import { snapshot } from "../../harness/release/snapshot.ts";
import { root } from "../../harness/repository.ts";
import { VERSION } from "../../src/platform/version.ts";
import { openStore } from "../../src/store/database.ts";
import { schemaVersion } from "../../src/store/schema/migrate.ts";
import { releasedInstallScript } from "../../tools/release/install-script.ts";

const machine = () =>
  emptyMachine({ script: releasedInstallScript(readFileSync(join(root, "install.sh"), "utf8"), "# no key\n") });

describe("a rollback", () => {
  /** Installs a binary that reads schema 7 and then one that says, on this condition, what schema its data has. */
  async function upgraded(schema: string, condition = "true") {
    const m = machine();
    const check = `"db check --json --data-dir"*) ${condition} && echo '${schema}' ;;\n  *)`;
    for (const [version, binary] of [
      ["2.0.0", smallBinary("2.0.0", 7)],
      ["2.1.0", smallBinary("2.1.0", 8).replace("*)", check)],
    ] as const) {
      writeSmallRelease(m.at(version), { version, binary });
      expect((await m.run(["--from", version])).code).toBe(0);
    }
    mkdirSync(m.at("state"));
    writeFileSync(m.at("state/keyrack.db"), "data");
    return m;
  }

  it("is refused when the data has a schema that the older binary cannot read, unless forced", async () => {
    using m = await upgraded('{"ok":true,"schema":{"database":8,"binary":8},"pending":[]}');
    const before = snapshot(m.dir);
    const ran = await m.run(["--rollback"]);
    expect(ran).toMatchObject({ code: 1, output: expect.stringContaining("keyrack 2.0.0 reads schema 7, but") });
    expect(ran.output).toContain("has schema 8");
    expect(snapshot(m.dir)).toEqual(before);
    expect((await m.run(["--rollback", "--force"])).code).toBe(0);
    expect(m.installed()).toEqual(["2.0.0", "2.1.0"]);
  });

  it("compares with the database in the settings of the service that runs this binary", async () => {
    const url = "postgresql://keyrack:p%20w@127.0.0.1/keyrack?sslmode=require";
    using m = await upgraded('{"schema":{"database":8,"binary":8}}', `[ "$KEYRACK_DATABASE_URL" = "${url}" ]`);
    rmSync(m.at("state/keyrack.db"));
    mkdirSync(m.at("units"));
    const unit = (binary: string): void =>
      writeFileSync(
        m.at("units/keyrack.service"),
        `[Service]\nExecStart=${binary} serve\n${["none", "a", "b"].map((name) => `EnvironmentFile=-${m.at(`${name}.env`)}\n`).join("")}`,
      );
    unit(m.at("prefix/bin/keyrack"));
    writeFileSync(m.at("a.env"), "KEYRACK_DATABASE_URL=postgresql://elsewhere\n");
    writeFileSync(m.at("b.env"), `#KEYRACK_DATABASE_URL=\nKEYRACK_PORT=1\nKEYRACK_DATABASE_URL="${url}"\n`);
    const units = { KEYRACK_UNIT_DIR: m.at("units") };
    const ran = await m.run(["--rollback"], units);
    expect(ran).toMatchObject({ code: 1, output: expect.stringContaining("but the database has schema 8") });
    expect(m.installed()).toEqual(["2.1.0", "2.0.0"]);
    unit("/usr/bin/keyrack");
    expect((await m.run(["--rollback"], units)).output).toContain("The schemas were not compared");
  });

  it("compares with the data dir of the service that runs this binary", async () => {
    using m = await upgraded('{"schema":{"database":8,"binary":8}}', `[ "$5" = "$(cat "$0.dir")" ]`);
    rmSync(m.at("state/keyrack.db"));
    mkdirSync(m.at("units"));
    for (const name of ["a", "b", "c"]) {
      mkdirSync(m.at(name));
      writeFileSync(m.at(name, "keyrack.db"), "data");
    }
    const unit = `[Service]\nExecStart=${m.at("prefix/bin/keyrack")} serve\nEnvironment=KEYRACK_DATA_DIR=${m.at("a")}\nEnvironmentFile=-${m.at("b.env")}\n`;
    writeFileSync(m.at("units/keyrack.service"), unit);
    const compares = async (folder: string, more: Record<string, string> = {}): Promise<void> => {
      writeFileSync(m.at("prefix/bin/keyrack.dir"), m.at(folder));
      const ran = await m.run(["--rollback"], { KEYRACK_UNIT_DIR: m.at("units"), ...more });
      expect(ran).toMatchObject({ code: 1, output: expect.stringContaining(`but ${m.at(folder)} has schema 8`) });
    };
    await compares("a");
    writeFileSync(m.at("b.env"), `KEYRACK_DATA_DIR="${m.at("b")}"\n`);
    await compares("b");
    await compares("c", { KEYRACK_DATA_DIR: m.at("c") });
    expect(m.installed()).toEqual(["2.1.0", "2.0.0"]);
  });

  it("is refused when the schemas cannot be compared, and allowed when they are equal", async () => {
    using broken = await upgraded("damaged");
    expect(await broken.run(["--rollback"])).toMatchObject({
      code: 1,
      output: expect.stringContaining("cannot compare"),
    });
    expect(broken.installed()).toEqual(["2.1.0", "2.0.0"]);
    using equal = await upgraded('{"schema":{"database":7,"binary":8}}');
    expect((await equal.run(["--rollback"])).code).toBe(0);
    expect(equal.installed()).toEqual(["2.0.0", "2.1.0"]);
    expect(readFileSync(equal.at("state/keyrack.db"), "utf8")).toBe("data");
  });

  it("asks the real database for its schema", async () => {
    using m = machine();
    const checkout = `#!/bin/sh\nPATH=/usr/bin:/bin exec ${join(root, "bin/keyrack")} "$@"\n`;
    writeSmallRelease(m.at("new"), { version: VERSION, binary: checkout });
    mkdirSync(m.at("state"));
    const target = { kind: "sqlite", file: m.at("state/keyrack.db") } as const;
    await (await openStore(target, { now: Date.now, fatal: () => {} })).close();
    const current = schemaVersion();
    for (const [schema, code] of [
      [current - 1, 1],
      [current, 0],
    ] as const) {
      const binary = smallBinary("0.0.1", schema);
      writeSmallRelease(m.at(`old-${schema}`), { version: "0.0.1", binary });
      for (const source of [`old-${schema}`, "new"]) expect((await m.run(["--from", source])).code).toBe(0);
      const ran = await m.run(["--rollback"]);
      expect(ran.code, ran.output).toBe(code);
    }
    expect(m.installed()).toEqual(["0.0.1", VERSION]);
  });

  it("to a binary that does not run is refused", async () => {
    using m = await upgraded("");
    writeFileSync(m.at("prefix/bin/keyrack.previous"), "#!/bin/sh\nexit 1\n");
    const before = snapshot(m.dir);
    expect(await m.run(["--rollback", "--force"])).toMatchObject({
      code: 1,
      output: expect.stringContaining("does not run"),
    });
    expect(snapshot(m.dir)).toEqual(before);
  });
});
