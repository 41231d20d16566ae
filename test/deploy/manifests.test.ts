// Every container of deploy/ runs with least privilege, has limits and probes, and is the version of this repository.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parse, parseAllDocuments } from "yaml";
import { hasTool } from "../../harness/processes/tools.ts";
import { filesIn, readText, root } from "../../harness/repository.ts";
import { loadSettings } from "../../src/config/load.ts";
import { envOf, settingNames } from "../../src/config/settings.ts";
import { VERSION } from "../../src/platform/version.ts";
import { composeProblems, kubernetesProblems, type Manifest } from "../../harness/deploy-rules.ts";

const FOLDERS = ["sqlite", "postgres"].map((name) => `deploy/kubernetes/${name}`);

type Kustomization = { resources: string[]; configMapGenerator: { name: string; literals: string[] }[] };

function load(folder: string): { documents: Manifest[]; settings: Record<string, string> } {
  const { resources, configMapGenerator } = parse(readText(`${folder}/kustomization.yaml`)) as Kustomization;
  const documents = resources.flatMap((file) =>
    parseAllDocuments(readText(`${folder}/${file}`)).map((document) => document.toJS() as Manifest),
  );
  const literals = configMapGenerator.flatMap(({ literals }) => literals);
  const settings = literals.map((literal) => [
    literal.slice(0, literal.indexOf("=")),
    literal.slice(literal.indexOf("=") + 1),
  ]);
  return { documents, settings: Object.fromEntries(settings) as Record<string, string> };
}

describe.each(FOLDERS)("%s", (folder) => {
  const { documents, settings } = load(folder);

  it("keeps the rules", () => {
    expect(kubernetesProblems(documents, VERSION)).toEqual([]);
  });

  it("lists every file of the folder", () => {
    const { resources } = parse(readText(`${folder}/kustomization.yaml`)) as Kustomization;
    const files = filesIn(folder).map((file) => file.slice(folder.length + 1));
    expect(files).toEqual([...resources, "kustomization.yaml"].toSorted());
  });

  it("sets only existing settings, to valid values", () => {
    const known: string[] = settingNames.map(envOf);
    const named = readText(`${folder}/${documents[0]?.kind.toLowerCase()}.yaml`).match(/KEYRACK_\w+/g) ?? [];
    expect([...named, ...Object.keys(settings)].filter((name) => !known.includes(name))).toEqual([]);
    expect(loadSettings({ env: settings, cwd: "/" }).warnings).toEqual([]);
  });

  it.runIf(hasTool("kubectl", "kustomize folders in kubectl"))("is built by kubectl kustomize", () => {
    const text = execFileSync("kubectl", ["kustomize", join(root, folder)], { encoding: "utf8" });
    const built = parseAllDocuments(text).map((document) => document.toJS() as Manifest);
    const kinds = built.map(({ kind }) => kind).toSorted();
    expect(kinds).toEqual(["ConfigMap", ...documents.map(({ kind }) => kind)].toSorted());
    expect(
      kubernetesProblems(
        built.filter(({ kind }) => kind !== "ConfigMap"),
        VERSION,
      ),
    ).toEqual([]);
  });
});

describe("deploy/kubernetes", () => {
  it("runs SQLite in exactly one pod, and PostgreSQL in two that are replaced one by one", () => {
    const [sqlite, postgres] = FOLDERS.map((folder) => load(folder).documents);
    expect(sqlite?.map(({ kind }) => kind)).toEqual(["StatefulSet", "Service", "Ingress"]);
    expect(postgres?.map(({ kind }) => kind)).toEqual(["Deployment", "PodDisruptionBudget", "Service", "Ingress"]);
  });

  const text = readText("deploy/kubernetes/postgres/deployment.yaml");
  const others = load("deploy/kubernetes/postgres").documents.slice(1);
  it.each<[string, string | RegExp, string, string]>([
    ["latest", `keyrack:${VERSION}`, "keyrack:latest", "image"],
    ["no tag", `keyrack:${VERSION}`, "keyrack", "image"],
    ["another version", `keyrack:${VERSION}`, "keyrack:9.9.9", "image"],
    ["root", "runAsNonRoot: true", "runAsNonRoot: false", "runAsNonRoot"],
    ["another user", "runAsUser: 4747", "runAsUser: 0", "runAsUser"],
    ["a writable root", "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "readOnlyRootFilesystem"],
    ["capabilities", "drop: [ALL]", "drop: [NET_RAW]", "capabilities"],
    ["privilege escalation", "allowPrivilegeEscalation: false", "privileged: true", "allowPrivilegeEscalation"],
    ["no seccomp profile", "RuntimeDefault", "Unconfined", "seccomp"],
    ["no limits", /limits: .*/, "limits: {}", "limits"],
    ["no liveness probe", "livenessProbe", "unknownProbe", "liveness"],
    ["the wrong readiness probe", "path: /readyz", "path: /", "readiness"],
    ["a short grace period", "terminationGracePeriodSeconds: 30", "terminationGracePeriodSeconds: 10", "grace"],
    ["one replica", "replicas: 2", "replicas: 1", "replicas"],
    ["pods that stop first", "maxUnavailable: 0", "maxUnavailable: 1", "maxUnavailable"],
    [
      "labels that no selector matches",
      /labels: \{ app.kubernetes.io\/name: keyrack \}(?=\n +spec)/,
      "labels: { a: b }",
      "selector",
    ],
    [
      "service links, which overwrite KEYRACK_PORT",
      "enableServiceLinks: false",
      "enableServiceLinks: true",
      "enableServiceLinks",
    ],
    ["the master key outside a Secret", "secretName: keyrack", "configMapName: keyrack", "master key"],
  ])("would be refused with %s", (_why, what, instead, problem) => {
    const changed = text.replace(what, instead);
    expect(changed === text).toBe(false);
    const documents = [parse(changed) as Manifest, ...others];
    expect(kubernetesProblems(documents, VERSION).join("\n")).toContain(problem);
  });

  it("would be refused with an ingress to the metrics", () => {
    const ingress = parse(readText("deploy/kubernetes/postgres/ingress.yaml").replace("name: http", "name: metrics"));
    const documents = load("deploy/kubernetes/postgres").documents.map((document) =>
      document.kind === "Ingress" ? (ingress as Manifest) : document,
    );
    expect(kubernetesProblems(documents, VERSION).join("\n")).toContain("ingress");
  });
});

describe("deploy/compose", () => {
  const text = readText("deploy/compose/compose.yaml");

  it("builds on an exact version of Debian", () => {
    expect(readText("deploy/compose/Dockerfile")).toMatch(/^FROM debian:\d+\.\d+-slim$/m);
  });

  it("keeps the rules", () => {
    expect(composeProblems(text, VERSION)).toEqual([]);
  });

  it.each<[string, string, string, string]>([
    ["latest", `local/keyrack:${VERSION}`, "local/keyrack:latest", "image"],
    ["a version that moves", "redis:7.4.2", "redis:7", "image"],
    ["root", 'user: "4747:4747"', 'user: "0:0"', "user"],
    ["a writable root", "read_only: true", "read_only: false", "read_only"],
    ["capabilities", "cap_drop: [ALL]", "cap_drop: []", "cap_drop"],
    ["privilege escalation", "no-new-privileges:true", "no-new-privileges:false", "no-new-privileges"],
    ["no limit", "mem_limit: 1g", "mem_swappiness: 0", "mem_limit"],
    ["a short grace period", "stop_grace_period: 15s", "stop_grace_period: 5s", "grace"],
    ["a database that runs as root", 'user: "999:999" # postgres', 'user: "0:0" # postgres', "postgres: the user"],
    ["a database without limits", "mem_limit: 768m", "mem_swappiness: 0", "redis: cpus and mem_limit"],
    ["a proxy with more privileges", "[NET_BIND_SERVICE]", "[NET_BIND_SERVICE, NET_ADMIN]", "caddy: cap_add"],
    ["a proxy that is not confined", "<<: *confined\n    image: caddy", "image: caddy", "caddy: read_only"],
  ])("would be refused with %s", (_why, what, instead, problem) => {
    const changed = text.replace(what, instead);
    expect(changed === text).toBe(false);
    expect(composeProblems(changed, VERSION).join("\n")).toContain(problem);
  });
});
