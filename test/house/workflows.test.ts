// The rules that keep a workflow from running code, or leaking secrets, that no maintainer has seen.
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { filesIn, readText } from "../../harness/repository.ts";

type Step = { name?: string; uses?: string; run?: string };
type Job = {
  container?: { image: string; options?: string };
  env?: Record<string, string>;
  "timeout-minutes"?: number;
  environment?: string;
  permissions?: Record<string, string> | string;
  steps: Step[];
};
type Workflow = { on: unknown; permissions?: unknown; jobs: Record<string, Job> };

const PINNED = /^[\w.-]+\/[\w./-]+@[0-9a-f]{40}$/;
const TAGGED = /^\s*(?:- )?uses: \S+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/;

/** A job that runs the tests must not leave out those of the packages. git refuses what belongs to another user. */
function packageProblems({ container, env, steps }: Job): string[] {
  const scripts = steps.map(({ run = "" }) => run).join("\n");
  if (!scripts.includes(".ci/")) return [];
  const problems: string[] = [];
  if (!/^debian:\d+\.\d+$/.test(container?.image ?? "")) problems.push("does not test on one Debian");
  if (!container?.options?.includes("--privileged")) problems.push("cannot mount");
  const required = env?.["KEYRACK_TEST_REQUIRE"]?.split(",") ?? [];
  for (const each of ["root", "unshare", "mount", "dpkg-deb", "apt-get"])
    if (!required.includes(each)) problems.push(`may skip the tests of ${each}`);
  for (const path of ['"$GITHUB_WORKSPACE"', '"$GITHUB_WORKSPACE/.git"'])
    if (!scripts.includes(`git config --global --add safe.directory ${path}\n`))
      problems.push(`does not trust ${path}`);
  return problems;
}

function problemsIn(text: string): string[] {
  const { on, permissions, jobs } = parse(text) as Workflow;
  const problems: string[] = [];
  if (JSON.stringify(on).includes("pull_request_target")) problems.push("runs on pull_request_target");
  if (JSON.stringify(permissions) !== '{"contents":"read"}') problems.push("has other permissions than contents: read");
  for (const line of text.split("\n"))
    if (/^\s*(?:- )?uses:/.test(line) && !TAGGED.test(line))
      problems.push(`lacks a commit and its tag: ${line.trim()}`);
  for (const [name, job] of Object.entries(jobs)) {
    if (!job["timeout-minutes"]) problems.push(`${name} has no timeout-minutes`);
    for (const { uses, run } of job.steps) {
      if (uses && !PINNED.test(uses)) problems.push(`${name} uses ${uses}`);
      if (run?.includes("${{")) problems.push(`${name} puts an expression into a script`);
    }
    problems.push(...packageProblems(job).map((problem) => `${name} ${problem}`));
    if (/\bsecrets\b/.test(JSON.stringify(job)) && !job.environment)
      problems.push(`${name} reads secrets outside a protected environment`);
    if (JSON.stringify(job.permissions ?? {}).includes("write") && !job.environment)
      problems.push(`${name} may write outside a protected environment`);
  }
  if (/\bsecrets\b/.test(text.split(/^jobs:/m)[0]?.replace(/^\s*#.*$/gm, "") ?? ""))
    problems.push("gives secrets to every job");
  return problems;
}

describe("workflows", () => {
  const files = filesIn(".github/workflows");

  it("are ci, nightly and release", () => {
    expect(files).toEqual(["ci", "nightly", "release"].map((name) => `.github/workflows/${name}.yml`));
  });

  it.each(files)("%s keeps the rules", (file) => {
    expect(problemsIn(readText(file))).toEqual([]);
  });

  it("run the repository's own scripts: ci nothing but .ci/run, in a container that it prepares", () => {
    const scripts = (name: string): (string | undefined)[] => {
      const { jobs } = parse(readText(`.github/workflows/${name}.yml`)) as Workflow;
      return Object.values(jobs).flatMap(({ steps }) => steps.filter(({ run }) => run).map(({ run }) => run));
    };
    expect(scripts("ci").map((run) => /^apt-get|^.*$/.exec(run ?? "")?.[0])).toEqual(["apt-get", ".ci/run"]);
    expect(scripts("nightly").some((run) => run?.includes(".ci/nightly"))).toBe(true);
    const release = [".ci/run", "npm ci", "npm run release -- --check", "npm run test:release"];
    expect(scripts("release").slice(2, 6)).toEqual(release);
  });

  it("publish the library only from a published release whose signature was verified, and hold no secret", () => {
    const text = readText(".github/workflows/release.yml");
    const { on, jobs } = parse(text) as Workflow & { jobs: Record<string, { if?: string }> };
    expect(on).toEqual({ push: { tags: ["v*"] }, release: { types: ["published"] } });
    expect(/\bsecrets\./.test(text)).toBe(false);
    const publishing = Object.entries(jobs).filter(([, job]) => JSON.stringify(job).includes("npm publish"));
    expect(publishing.map(([name]) => name)).toEqual(["npm"]);
    expect(jobs.npm?.if).toBe("github.event_name == 'release'");
    const scripts = jobs.npm?.steps.flatMap(({ run }) => run ?? []) ?? [];
    expect(scripts.map((script) => /ssh-keygen -Y verify|npm publish/.exec(script)?.[0])).toEqual([
      "ssh-keygen -Y verify",
      "npm publish",
    ]);
  });

  const release = readText(".github/workflows/release.yml");
  it.each<[string, (text: string) => string, string]>([
    ["an action by its tag", (text) => text.replace(/@[0-9a-f]{40} # (v\S+)/, "@$1"), "uses actions/checkout@v"],
    ["a commit without its tag", (text) => text.replace(/ # v7\.0\.1/, ""), "lacks a commit and its tag"],
    ["a container action", (text) => text.replace(/actions\/checkout@\w{40}/, "docker://alpine"), "uses docker://"],
    ["no timeout", (text) => text.replace(/ +timeout-minutes: 30\n/, ""), "draft has no timeout-minutes"],
    ["write access for all", (text) => text.replace("contents: read", "contents: write"), "other permissions"],
    [
      "write access for a job",
      (text) => text.replace(/( {2}build:\n)/, "$1    permissions: write-all\n"),
      "build may write outside",
    ],
    ["no permissions", (text) => text.replace(/^permissions:\n.*\n/m, ""), "other permissions"],
    [
      "no protected environment",
      (text) => text.replace(/ +environment: release\n/, ""),
      "draft may write outside a protected environment",
    ],
    [
      "a secret for the tests",
      (text) => text.replace("    env:\n", "    env:\n      A: ${{ secrets.A }}\n"),
      "build reads secrets outside a protected environment",
    ],
    [
      "an expression in a script",
      (text) => text.replace("npm ci", "echo ${{ github.event.head_commit.message }}"),
      "puts",
    ],
    ["pull_request_target", (text) => text.replace("push:", "pull_request_target:"), "pull_request_target"],
    ["a job that cannot mount", (text) => text.replace("--privileged ", ""), "build cannot mount"],
    ["tests that may be skipped", (text) => text.replace("unshare,mount,", ""), "may skip the tests of mount"],
    ["a checkout that git refuses", (text) => text.replace(/.*safe.directory.*\.git"\n/, ""), "does not trust"],
    ["secrets for all jobs", (text) => text.replace("jobs:", "env:\n  A: ${{ secrets.A }}\njobs:"), "every job"],
  ])("would be refused with %s", (_why, change, problem) => {
    const changed = change(release);
    expect(changed === release).toBe(false);
    expect(problemsIn(changed).join("\n")).toContain(problem);
  });
});

describe("issue forms", () => {
  type Form = { body: { type: string; id?: string; attributes: { value?: string } }[] };

  it.each(["bug", "feature"])("%s: asks for version, database, what happened and what was expected", (name) => {
    const { body } = parse(readText(`.github/ISSUE_TEMPLATE/${name}.yml`)) as Form;
    const ids = body.map(({ id }) => id);
    for (const id of ["version", "database", "happened", "expected"]) expect(ids).toContain(id);
    const note = body.find(({ type }) => type === "markdown")?.attributes.value ?? "";
    expect(note.includes("Do not paste keys") && note.includes("/security/advisories/new")).toBe(true);
  });
});
