// The largest owners of what is shared in this process, for the operator: by workspace and environment, or by network.
import { sharesTable, type Resource } from "../../fairness/shares.ts";
import type { Owner } from "../../fairness/owners.ts";
import { workspaceById } from "../../store/queries/workspaces.ts";
import type { Services } from "../core/context.ts";

const OWNERS_MAX = 20;

export const RESOURCES = Object.keys(sharesTable) as Resource[];

export async function listLargestOwners(services: Services, by?: Resource) {
  const names = new Map<string, string>();
  const resources = by ? [by] : RESOURCES;
  return {
    object: "top" as const,
    data: await Promise.all(resources.map((resource) => viewResource(services, resource, names))),
  };
}

async function viewResource(services: Services, resource: Resource, names: Map<string, string>) {
  const ledger = services.shares.of(resource);
  const { bound, share } = ledger.limits;
  const owners = [];
  for (const { owner, used, refused } of ledger.owners().slice(0, OWNERS_MAX)) {
    const name = names.get(owner.id) ?? (await nameOf(services, owner));
    names.set(owner.id, name);
    owners.push({ owner: name, kind: owner.kind, used, refused_5m: refused });
  }
  return { resource, used: ledger.used, bound: finite(bound), share: finite(Math.min(share, bound)), owners };
}

/** A cell by the slug of its workspace; other owners by their id, which is a network or a person. */
async function nameOf({ store }: Services, owner: Owner): Promise<string> {
  if (owner.kind !== "cell") return owner.id;
  const workspace = await workspaceById.first(store.read, { id: owner.workspace_id });
  return workspace ? `${workspace.slug}/${owner.env}` : owner.id;
}

function finite(amount: number): number | null {
  return Number.isFinite(amount) ? amount : null;
}
