// The rules of the files in deploy/, as functions from parsed documents to problems.
import { parse } from "yaml";

type Labels = Record<string, string>;
export type Manifest = {
  kind: string;
  metadata: { name: string; labels?: Labels };
  spec: Record<string, unknown>;
};

type Probe = { httpGet?: { path: string; port: string } };
type Container = {
  name: string;
  image: string;
  ports: { name: string; containerPort: number }[];
  env: { name: string; value?: string }[];
  startupProbe?: Probe;
  readinessProbe?: Probe;
  livenessProbe?: Probe;
  resources?: { requests?: Labels; limits?: Labels };
  securityContext?: {
    allowPrivilegeEscalation?: boolean;
    readOnlyRootFilesystem?: boolean;
    capabilities?: { drop?: string[] };
  };
  volumeMounts: { name: string; mountPath: string }[];
};
type Pod = {
  enableServiceLinks?: boolean;
  terminationGracePeriodSeconds?: number;
  securityContext?: { runAsNonRoot?: boolean; runAsUser?: number; seccompProfile?: { type: string } };
  containers: Container[];
  volumes: { name: string; secret?: object }[];
};
type Workload = {
  replicas: number;
  selector: { matchLabels: Labels };
  template: { metadata: { labels: Labels }; spec: Pod };
  strategy?: { rollingUpdate?: { maxSurge: number; maxUnavailable: number } };
  updateStrategy?: { type: string };
};

const WORKLOADS = ["Deployment", "StatefulSet"];
const USER = 4747;
const PORT = 4747;
const GRACE_MIN_SECONDS = 15;

/** Keeps the rules that are not met. */
const failed = (rules: Record<string, boolean | undefined>): string[] =>
  Object.keys(rules).filter((rule) => rules[rule] !== true);

const matches = (selector: Labels | undefined, labels: Labels): boolean =>
  selector !== undefined && Object.entries(selector).every(([name, value]) => labels[name] === value);

export function kubernetesProblems(documents: readonly Manifest[], version: string): string[] {
  const workloads = documents.filter(({ kind }) => WORKLOADS.includes(kind));
  if (workloads.length !== 1) return [`there are ${workloads.length} workloads`];
  const { kind, spec } = workloads[0] as Manifest;
  const workload = spec as Workload;
  const { template } = workload;
  return [
    ...failed({
      "the selector matches the pod's labels": matches(workload.selector.matchLabels, template.metadata.labels),
      ...(kind === "StatefulSet" ? statefulSetRules(workload) : deploymentRules(workload, documents)),
    }),
    ...podProblems(template.spec),
    ...template.spec.containers.flatMap((container) => containerProblems(container, version)),
    ...documents.flatMap((document) => networkProblems(document, template.metadata.labels)),
  ];
}

/** A StatefulSet stops the old pod before it starts the new one of the same name. */
function statefulSetRules({ replicas, updateStrategy, ...spec }: Workload): Record<string, boolean> {
  return {
    "replicas is 1: SQLite has one writer": replicas === 1,
    "updateStrategy is RollingUpdate": updateStrategy?.type === "RollingUpdate",
    "it claims a volume": "volumeClaimTemplates" in spec,
  };
}

function deploymentRules(workload: Workload, documents: readonly Manifest[]): Record<string, boolean> {
  const { maxSurge, maxUnavailable } = workload.strategy?.rollingUpdate ?? {};
  const labels = workload.template.metadata.labels;
  const budget = documents.find(({ kind }) => kind === "PodDisruptionBudget")?.spec as Partial<Workload> | undefined;
  return {
    "replicas is 2": workload.replicas === 2,
    "maxSurge is 1 and maxUnavailable 0": maxSurge === 1 && maxUnavailable === 0,
    "a PodDisruptionBudget's selector matches": matches(budget?.selector?.matchLabels, labels),
  };
}

function podProblems(pod: Pod): string[] {
  const { runAsNonRoot, runAsUser, seccompProfile } = pod.securityContext ?? {};
  return failed({
    "runAsNonRoot is true": runAsNonRoot,
    [`runAsUser is ${USER}`]: runAsUser === USER,
    "the seccomp profile is RuntimeDefault": seccompProfile?.type === "RuntimeDefault",
    [`the grace period is at least ${GRACE_MIN_SECONDS} s`]:
      (pod.terminationGracePeriodSeconds ?? 0) >= GRACE_MIN_SECONDS,
    // A Service named keyrack would set KEYRACK_PORT to a URL.
    "enableServiceLinks is false": pod.enableServiceLinks === false,
    "the master key comes from a Secret": pod.containers.every((container) => mountsMasterKey(container, pod)),
  });
}

function mountsMasterKey({ env, volumeMounts }: Container, { volumes }: Pod): boolean {
  const file = env.find(({ name }) => name === "KEYRACK_MASTER_KEY_FILE")?.value ?? "";
  const mount = volumeMounts.find(({ mountPath }) => file.startsWith(`${mountPath}/`));
  return volumes.some(({ name, secret }) => name === mount?.name && JSON.stringify(secret)?.includes("secretName"));
}

function containerProblems(container: Container, version: string): string[] {
  const { securityContext, resources, startupProbe, readinessProbe, livenessProbe, ports } = container;
  const limited = (values: Labels | undefined): boolean => Boolean(values?.cpu && values.memory);
  return failed({
    [`the image is version ${version}`]: /^[\w./:-]*\bkeyrack:(\S+)$/.exec(container.image)?.[1] === version,
    "allowPrivilegeEscalation is false": securityContext?.allowPrivilegeEscalation === false,
    "readOnlyRootFilesystem is true": securityContext?.readOnlyRootFilesystem,
    "all capabilities are dropped": securityContext?.capabilities?.drop?.join() === "ALL",
    "it has requests": limited(resources?.requests),
    "it has limits": limited(resources?.limits),
    "it has a startup probe": Boolean(startupProbe?.httpGet),
    "the readiness probe is /readyz": readinessProbe?.httpGet?.path === "/readyz",
    "the liveness probe is /healthz": livenessProbe?.httpGet?.path === "/healthz",
    [`its port http is ${PORT}`]: ports.some(({ name, containerPort }) => name === "http" && containerPort === PORT),
  });
}

/** A Service reaches the pods and exposes 4747; metrics are another port, which no Ingress names. */
function networkProblems({ kind, spec }: Manifest, labels: Labels): string[] {
  if (kind === "Service") {
    const { selector, ports } = spec as { selector: Labels; ports: { name: string; port: number }[] };
    return failed({
      "a Service's selector matches the pod's labels": matches(selector, labels),
      [`a Service exposes ${PORT} as http`]: ports.some(({ name, port }) => name === "http" && port === PORT),
      "a Service has metrics as another port": ports.some(({ name, port }) => name === "metrics" && port !== PORT),
    });
  }
  const metrics = kind === "Ingress" && /metrics|9464/.test(JSON.stringify(spec));
  return metrics ? ["an ingress names the metrics"] : [];
}

type Service = {
  image: string;
  user?: string;
  read_only?: boolean;
  cap_drop?: string[];
  cap_add?: string[];
  security_opt?: string[];
  cpus?: number;
  mem_limit?: string;
  stop_grace_period?: string;
  healthcheck?: { test: string[] };
};

export function composeProblems(text: string, version: string): string[] {
  const { services } = parse(text, { merge: true }) as { services: Record<string, Service> };
  return Object.entries(services).flatMap(([name, service]) => {
    // Exact to the patch: nothing changes under a running deployment.
    const pinned = /^[\w./-]+:\d+\.\d+(?:\.\d+)?$/.test(service.image);
    const confined = {
      "the image has an exact version": pinned,
      "read_only is true": service.read_only,
      "cap_drop is ALL": service.cap_drop?.join() === "ALL",
      "cap_add is at most NET_BIND_SERVICE": (service.cap_add ?? []).every((each) => each === "NET_BIND_SERVICE"),
      "security_opt has no-new-privileges": service.security_opt?.includes("no-new-privileges:true"),
      "cpus and mem_limit are set": Boolean(service.cpus && service.mem_limit),
      "the user is not root, unless it binds a low port": Boolean(
        service.cap_add ?? !/^(?:$|0|root)/.test(service.user ?? ""),
      ),
    };
    if (!/^keyrack-\d$/.test(name)) return failed(confined).map((rule) => `${name}: ${rule}`);
    const rules = failed({
      ...confined,
      [`the image is version ${version}`]: service.image.endsWith(`:${version}`),
      [`the user is ${USER}`]: service.user === `${USER}:${USER}`,
      [`the grace period is at least ${GRACE_MIN_SECONDS} s`]:
        Number.parseInt(service.stop_grace_period ?? "", 10) >= GRACE_MIN_SECONDS,
      "the health check is keyrack status --ready":
        service.healthcheck?.test.join(" ") === "CMD keyrack status --ready",
    });
    return rules.map((rule) => `${name}: ${rule}`);
  });
}
