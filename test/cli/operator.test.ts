// `keyrack user`, `mail`, `secret-key create` and `audit list --deployment`, as processes on the database of a stopped
// server.
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import type { DatabaseTarget } from "../../src/store/target.ts";
import { runBackends } from "../../harness/databases/backends.ts";
import { keyrack, type Ran } from "../../harness/processes/cli.ts";
import { account, auditRows, freshEmail, PASSWORD } from "../../harness/instances/people.ts";
import { testInstance, type TestInstance } from "../../harness/instances/test-instance.ts";

const urlOf = (target: DatabaseTarget): string => (target.kind === "sqlite" ? `sqlite:${target.file}` : target.url);

// Each command is a process, and a busy machine may take seconds to start one.

for (const backend of runBackends) {
  describe(`operator commands on ${backend}`, () => {
    /** Runs a command on the instance's database. On SQLite the instance must be stopped first. */
    const command = (instance: TestInstance, ...args: string[]): Promise<Ran> =>
      keyrack([...args, "--data-dir", instance.dataDir, "--database-url", urlOf(instance.target)]);
    const json = (ran: Ran) => {
      expect(ran, ran.stderr).toMatchObject({ code: 0, stderr: "" });
      return JSON.parse(ran.stdout);
    };

    it("list people, unlock one, and create a password reset link", async () => {
      await using instance = await testInstance(backend, {
        flags: { throttle: "on", public_url: "https://keys.example.com" },
      });
      const email = await account(instance);
      const key = await instance.sql("select email_key from users");
      expect(key).toHaveLength(1);
      for (let n = 0; n < 3; n++) await instance.call(null, "POST /v1/auth/sessions", { email, password: "wrong" });
      await instance.sql("update login_failures set consecutive = 100");
      await instance.stop();
      const list = json(await command(instance, "user", "list", "--json"));
      expect(list.data).toMatchObject([{ object: "user", email, email_verified: true, login_disabled: true }]);
      expect(JSON.stringify(list)).not.toContain("argon2");
      const table = await command(instance, "user", "list");
      expect(table.stdout).toMatch(/^EMAIL +VERIFIED/);
      expect(table.stdout).toContain(email);
      const unlocked = await command(instance, "user", "unlock", email.toUpperCase());
      expect(unlocked).toMatchObject({ code: 0, stdout: `Unlocked ${email}.\n` });
      expect(await instance.sql("select * from login_failures")).toEqual([]);
      const link = await command(instance, "user", "reset-link", email, "--quiet", "--config", "/dev/null");
      expect(link.stdout).toMatch(/^http:\/\/127\.0\.0\.1:4747\/#\/reset\?token=krpr_[A-Za-z0-9_-]{40}\n$/);
      const wildcard = { env: { KEYRACK_HOST: "0.0.0.0", KEYRACK_TLS_CERT: "/x", KEYRACK_TLS_KEY: "/x" } };
      const where = ["--data-dir", instance.dataDir, "--database-url", urlOf(instance.target), "--config", "/dev/null"];
      const secure = await keyrack(["user", "reset-link", email, "--quiet", ...where], wildcard);
      expect(secure.stdout).toMatch(/^https:\/\/localhost:4747\/#\/reset\?token=krpr_/);
      const rows = (await auditRows(instance)).slice(-3, -1);
      expect(rows).toMatchObject([
        { action: "user.updated", actor_type: "system", actor_id: null, payload: { login_unlocked: true, buckets: 1 } },
        { action: "user.updated", actor_type: "system", payload: { reset_link: { issued: true } } },
      ]);
      const unknown = await command(instance, "user", "unlock", freshEmail());
      expect(unknown).toMatchObject({ code: 1, stdout: "", stderr: "keyrack: No such user.\n" });
    });

    it("create a secret key for a workspace that has no credential left", async () => {
      await using instance = await testInstance(backend);
      const { workspace, secret_key } = (
        await instance.call(instance.app.bootstrap.token, "POST /v1/workspaces", { name: "Lost", slug: "lost" })
      ).body;
      expect((await instance.call(secret_key.key, `POST /v1/secret_keys/${secret_key.id}/revoke`, {})).status).toBe(
        200,
      );
      const create = (...args: string[]) => command(instance, "secret-key", "create", "--env", "live", ...args);
      if (backend === "sqlite") await instance.stop();
      const made = json(await create("--workspace-id", workspace.id, "--json"));
      expect(made).toMatchObject({ object: "secret_key", env: "live", revoked_at: null });
      expect(await instance.sql("select workspace_id, owner_scope from secret_keys where id = $1", [made.id])).toEqual([
        { workspace_id: workspace.id, owner_scope: 1 },
      ]);
      const rows = (await auditRows(instance, workspace.id)).slice(-1);
      expect(rows).toMatchObject([
        { action: "secret_key.created", actor_type: "system", actor_id: null, target_id: made.id },
      ]);
      expect(JSON.stringify(rows)).not.toContain(made.key);
      if (backend === "postgres") expect((await instance.call(made.key, "GET /v1/workspace")).status).toBe(200);

      for (const unknown of ["lost", "01900000-0000-7000-8000-000000000000"])
        expect(await create("--workspace-id", unknown)).toMatchObject({
          code: 1,
          stdout: "",
          stderr: "keyrack: No such workspace.\n",
        });
      const excluded = [
        ["--permissions", "verify"],
        ["--url", "http://127.0.0.1:1"],
        ["--profile", "prod"],
      ] as const;
      for (const [flag, value] of excluded)
        expect(await create("--workspace-id", workspace.id, flag, value)).toMatchObject({
          code: 2,
          stdout: "",
          stderr: `keyrack: --workspace-id and ${flag} cannot be used together.\n`,
        });
      expect(await create()).toMatchObject({ code: 2, stderr: "keyrack: --data-dir needs --workspace-id.\n" });
      expect(await instance.sql("select id from secret_keys where workspace_id = $1", [workspace.id])).toHaveLength(2);
    });

    it("list the outbox without bodies, show one with its body, and deliver it", async () => {
      await using instance = await testInstance(backend, { flags: { mail_url: "smtp://127.0.0.1:1" } });
      const email = freshEmail();
      await account(instance, email, PASSWORD, false);
      await instance.app.idle();
      await instance.stop();
      const list = json(await command(instance, "mail", "list", "--json"));
      expect(list.data).toMatchObject([{ object: "mail", to: email, state: "queued", kind: "email_verification" }]);
      const { id } = list.data[0];
      expect(JSON.stringify(list)).not.toContain("krev_");
      const shown = await command(instance, "mail", "show", id);
      expect(shown.stdout).not.toContain("krev_");
      const withBody = json(await command(instance, "mail", "show", id, "--body", "--json"));
      expect(withBody.text).toContain("/#/verify?token=krev_");
      // The command's own settings send mail to files.
      const sent = json(await command(instance, "mail", "retry", id, "--json"));
      expect(sent).toMatchObject({ id, state: "sent" });
      const again = await command(instance, "mail", "retry", id);
      expect(again).toMatchObject({ code: 1, stderr: "keyrack: That message has already been sent.\n" });
      expect(json(await command(instance, "mail", "list", "--state", "dead", "--json")).data).toEqual([]);
      expect((await command(instance, "mail", "list", "--state", "lost")).code).toBe(2);
    });

    it("list the deployment's chain, with the people who acted", async () => {
      await using instance = await testInstance(backend);
      const email = await account(instance);
      await instance.stop();
      const { data } = json(await command(instance, "audit", "list", "--deployment", "--json"));
      expect(data.map(({ action }: { action: string }) => action)).toEqual(["user.created", "user.email_verified"]);
      expect(data[0].actor).toMatchObject({ email, email_verified: true });
      const later = json(await command(instance, "audit", "list", "--deployment", "--after-seq", "1", "--json"));
      expect(later.data).toHaveLength(1);
      expect((await command(instance, "audit", "list")).code).toBe(2);
    });
  });
}

describe("operator commands", () => {
  it("use the running server's socket, and say in one line if there is no database", async () => {
    await using instance = await testInstance("sqlite");
    const email = await account(instance);
    const listed = await keyrack([
      "user",
      "list",
      "--json",
      "--data-dir",
      instance.dataDir,
      "--database-url",
      urlOf(instance.target),
    ]);
    expect(listed).toMatchObject({ code: 0, stderr: "" });
    const { data } = JSON.parse(listed.stdout) as { data: { email: string }[] };
    expect(data.map((user) => user.email)).toEqual([email]);
    const nowhere = await keyrack(["user", "list", "--data-dir", join(instance.dataDir, "nowhere")]);
    expect(nowhere.code).toBe(2);
    expect(nowhere.stderr).toMatch(/^keyrack: There is no database at /);
  });
});
