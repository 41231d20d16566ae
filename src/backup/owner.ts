// Which deployment a backup belongs to: manifests name it, because several may write into one folder. A deployment
// prunes, tests and by default restores only its own backups. One without an id, of an earlier version, counts as its
// own.
import { randomBytes } from "node:crypto";
import type { Services } from "../domain/core/context.ts";
import { claimFactOnce, getFact } from "../domain/core/facts.ts";
import { readDeploymentId } from "../store/offline/contents.ts";
import { withSource } from "../store/offline/source.ts";
import type { DatabaseTarget } from "../store/target.ts";
import { BackupRefused, listBackups } from "./files.ts";

/** Null before the first backup. */
export async function ownDeploymentId({ store }: Services): Promise<string | null> {
  return (await getFact(store.read, "deployment_id")) ?? null;
}

export const newDeploymentId = (): string => randomBytes(8).toString("hex");

/** Gives the deployment its id unless it has one. */
export async function claimDeploymentId(services: Services): Promise<void> {
  await claimFactOnce(services, "deployment_id", newDeploymentId);
}

/** For a command without a server. Without a readable database, the folder must be of one deployment. */
export async function deploymentIdOf(target: DatabaseTarget, dir: string): Promise<string | null> {
  try {
    return await withSource(target, readDeploymentId);
  } catch {
    return soleDeploymentId(dir);
  }
}

/** The only deployment that wrote into this folder. Throws if there are several. */
export function soleDeploymentId(dir: string): string | null {
  const ids = new Set(listBackups(dir).flatMap(({ manifest }) => manifest?.deployment_id ?? []));
  if (ids.size > 1)
    throw new BackupRefused(
      `${dir} has backups of ${ids.size} deployments, and no database here says which is meant.`,
      2,
    );
  return [...ids][0] ?? null;
}
