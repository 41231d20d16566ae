// The rules that a workspace has counters for, found without building a text key: by project, then id, then the other
// attributes. Caution: a rule exists only while one of its counters does; dropping the last row must drop the rule.
import type { RateLimit } from "../../kernel/ratelimit/rule.ts";
import type { Subject } from "../counter.ts";

/** The earliest time at which a sweep can find something. A row's life is only ever extended, so the bound holds. */
export type Sweep = { due: number; ranAt: number };

export type Workspace = {
  id: string;
  number: number;
  projects: Map<string, Map<string, RulesWithId>>;
  counters: number;
  overflow: number;
  sweep: Sweep;
};

/** The rules of one project that share an id; usually one, and then `last` saves a lookup. bench: limiter/check */
type RulesWithId = { last: Rule; all: Map<number, Rule> };

export type Rule = Pick<RateLimit, "id" | "algorithm" | "window_ms" | "scope"> & {
  workspace: Workspace;
  project_id: string;
  env: "live" | "test";
  code: number;
  subjects: Map<string, number>;
  overflow: number;
};

export function newSweep(): Sweep {
  return { due: Infinity, ranAt: -Infinity };
}

export function newWorkspace(id: string, number: number): Workspace {
  return { id, number, projects: new Map(), counters: 0, overflow: 0, sweep: newSweep() };
}

/** The attributes of a rule except its id and limit, packed into one number. */
function codeOf(env: string, limit: RateLimit): number {
  const bits = (env === "live" ? 4 : 0) + (limit.scope === "key" ? 2 : 0) + (limit.algorithm === "sliding" ? 1 : 0);
  return limit.window_ms * 8 + bits;
}

export function isRule(rule: Rule, request: Subject, limit: RateLimit): boolean {
  return (
    rule.id === limit.id &&
    rule.project_id === request.project_id &&
    rule.workspace.id === request.workspace_id &&
    rule.code === codeOf(request.env, limit)
  );
}

export function findRule(workspace: Workspace, request: Subject, limit: RateLimit): Rule | undefined {
  const family = workspace.projects.get(request.project_id)?.get(limit.id);
  if (family === undefined) return undefined;
  const code = codeOf(request.env, limit);
  return family.last.code === code ? family.last : family.all.get(code);
}

export function addRule(workspace: Workspace, request: Subject, limit: RateLimit): Rule {
  const { project_id, env } = request;
  const { id, algorithm, window_ms, scope } = limit;
  const code = codeOf(env, limit);
  const subjects = new Map<string, number>();
  const rule = { id, algorithm, window_ms, scope, workspace, project_id, env, code, subjects, overflow: -1 };
  let families = workspace.projects.get(project_id);
  if (families === undefined) workspace.projects.set(project_id, (families = new Map()));
  const family = families.get(id);
  if (family === undefined) families.set(id, { last: rule, all: new Map([[code, rule]]) });
  else {
    family.all.set(code, rule);
    family.last = rule;
  }
  return rule;
}

export function dropRule(workspace: Workspace, rule: Rule): void {
  const families = workspace.projects.get(rule.project_id)!;
  const family = families.get(rule.id)!;
  family.all.delete(rule.code);
  for (const other of family.all.values()) {
    family.last = other;
    return;
  }
  families.delete(rule.id);
  if (families.size === 0) workspace.projects.delete(rule.project_id);
}
